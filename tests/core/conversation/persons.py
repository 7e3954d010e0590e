"""Persons behind one gateway's key, and the names by which the gateway tells who asks."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass

GATEWAY = ("Authorization", "Bearer gateway")
"""What all have in common."""


def _words(text: str) -> list[str]:
    return text.split()


REAL = _words("""
Api-Key Cf-Access-Jwt-Assertion CF-Access-Client-Secret Cf-Access-Authenticated-User-Email Cookie
Helicone-Auth Helicone-User-Id Impersonate-User Ocp-Apim-Subscription-Key OpenAI-Organization
OpenAI-Project Private-Token Proxy-Authorization Remote-Email Remote-User Tailscale-User-Login
X-Access-Token X-Amz-Security-Token X-Amzn-Oidc-Accesstoken X-Amzn-Oidc-Data X-Amzn-Oidc-Identity
X-Api-Key X-Auth-Request-Access-Token X-Auth-Request-Email X-Auth-Request-User X-Auth-Token
X-Auth-User X-Authenticated-Userid X-Authentik-Email X-Authentik-Jwt X-Authentik-Username
X-Client-Cert X-Consumer-Custom-Id X-Consumer-Id X-Consumer-Username X-Credential-Identifier
X-Endpoint-API-UserInfo X-Forwarded-Access-Token X-Forwarded-Client-Cert X-Forwarded-Email
X-Forwarded-Preferred-Username X-Forwarded-User X-Gitlab-Token X-Goog-Api-Key
X-Goog-Authenticated-User-Email X-Goog-Authenticated-User-Id X-Goog-Iap-Jwt-Assertion
X-Hasura-User-Id X-Id-Token X-Jwt-Assertion X-Kong-Key X-LibreChat-User-Id X-Litellm-Api-Key
X-Litellm-Customer-Id X-Litellm-End-User-Id X-Litellm-Key X-MS-Client-Principal
X-MS-Client-Principal-Id X-MS-Client-Principal-Name X-MS-Token-Aad-Access-Token X-Okta-User
X-OpenWebUI-User-Email X-OpenWebUI-User-Id X-OpenWebUI-User-Name X-Org-Id X-Plex-Token
X-Pomerium-Claim-Email X-Pomerium-Jwt-Assertion X-Portkey-Virtual-Key X-Remote-User X-Scope-OrgID
X-SSL-Client-S-DN X-Tenant-Id X-Token-Subject X-User-Email X-User-Id X-Virtual-Key X-Vouch-User
X-Webauth-User
""")
"""Headers of gateways, identity providers, cloud services and model servers."""

INVENTED = _words("""
Zeta-Secret Employee-Account X-Acme-Employee X-Acme-Identity X-Big-Co-Customer X-Other-Subject
X-Corp-Member-No X-Outer-Principal X-Wide-Account X-Long-Jwt X-Short-Login-Name
X-Massive-Access X-East-Credential X-Owner-Of-Request X-Two-Words-Team X-West-Password
X-Big-Badge-Owner X-South-Cert X-Inner-Person X-Upper-Workspace X-North-Department
X-Lower-Ticket
""")
"""Headers that nobody has met."""

QUERY = _words("key token access_token api_key user tenant subscription-key account")
BODY = ("user", "safety_identifier", "metadata.user_id")


@dataclass(frozen=True)
class Way:
    """How persons are told apart: by the ``name`` of a header, of a query's value, of a member."""

    where: str
    name: str

    def __str__(self) -> str:
        return {"header": "{}", "query": "?{}=", "body": '"{}"'}[self.where].format(self.name)

    def value(self, who: str) -> str:
        """What stands under the name for ``who``."""
        name = self.name.lower()
        if "jwt" in name or "token" in name or name.endswith(("-data", "-principal")):
            claims = (
                base64.urlsafe_b64encode(json.dumps({"sub": who}).encode()).decode().rstrip("=")
            )
            return f"eyJhbGciOiJIUzI1NiJ9.{claims}.c2lnbmVk"
        if name == "cookie":
            return f"theme=dark; sid={who}"
        if name == "proxy-authorization":
            return "Basic " + base64.b64encode(f"{who}:secret".encode()).decode()
        if name == "x-forwarded-client-cert":
            return f'By=spiffe://acme;Hash=468e;Subject="CN={who},O=Acme";URI='
        if name.endswith("-dn"):
            return f"CN={who},OU=People,O=Acme"
        return f"{who}@acme.example" if "email" in name else who


WAYS = (
    *(Way("header", name) for name in (*REAL, *INVENTED)),
    *(Way("query", name) for name in QUERY),
    *(Way("body", name) for name in BODY),
)


@dataclass(eq=False)
class Person:
    """Somebody whom a ``way`` tells from the twin. ``odd``: how the header is written.

    "_": with underscores; "twice": behind one of the same name that all have; "": as it is.
    """

    number: int
    way: Way
    who: str
    odd: str = ""

    def headers(self, chance: random.Random) -> list[tuple[str, str]]:
        """What a request has, the names in any case."""
        if self.way.where != "header":
            return [GATEWAY]
        name = self.way.name.replace("-", "_") if self.odd == "_" else self.way.name
        name = chance.choice((name, name, name.lower(), name.upper()))
        same = [(name, self.way.value("all"))] if self.odd == "twice" else []
        return [GATEWAY, *same, (name, self.way.value(self.who))]

    def query(self) -> str:
        """What stands behind the path."""
        return f"?{self.way.name}={self.way.value(self.who)}" if self.way.where == "query" else ""

    def members(self) -> dict:
        """What the body has beside."""
        if self.way.where != "body":
            return {}
        outer, dot, inner = self.way.name.partition(".")
        return {outer: {inner: self.who} if dot else self.who}


def twins(way: Way, number: int, chance: random.Random) -> list[Person]:
    """Return two persons whom ``way`` tells apart, and little else."""
    odd = chance.choice(("", "", "_", "twice")) if way.where == "header" else ""
    odd = "" if odd == "twice" and way.name == "Cookie" else odd
    name = chance.choice(("kim", "0-815", "Ana", "u"))
    return [Person(number + at, way, f"{name}{number + at}", odd) for at in range(2)]
