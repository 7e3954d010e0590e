"""Who may use the proxy: programs on this machine, or those who know the token.

A web page from another site can make a browser send requests to loopback, and can give that
address a host name of its own (DNS rebinding). It cannot remove the headers that show this.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes

Values = Callable[[bytes], Sequence[bytes]]
"""Returns all values of the header with that (lower-case) name."""

TOKEN_HEADER = b"x-cacheproxy-token"
"""Where a client gives the token that needs its API key for the upstream."""

OWN = b"/_cacheproxy"
"""Our own pages are under this path; everything else belongs to the upstream, but for …"""
DASHBOARD = b"/dashboard"
"""… what leads to our own page, for those who look for it there."""
READY, HEALTH = OWN + b"/ready", OWN + b"/health"
"""What load balancers ask for, by whatever name they have for us, or none."""
_OPEN = (OWN, OWN + b"/", DASHBOARD, READY)
_OPEN_FOLDER = OWN + b"/static/"
"""What holds no data: the page that asks for the token, and its script."""

_CREDENTIALS = (TOKEN_HEADER, b"authorization", b"x-api-key")
_NAME = re.compile(r"[A-Za-z0-9.-]{1,253}\Z")
# RFC 3986, section 3.2.2, and a port: an address in brackets, or a name.
_HOST = re.compile(
    r"(?:\[[0-9A-Za-z:.%~_-]+\]|(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)
_SAME_SITE = {b"same-origin", b"none"}
"""https://www.w3.org/TR/fetch-metadata/: "none" is a user who typed the address."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further: the status, and one sentence."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Access:
    """``hosts``: names besides localhost under which clients may ask; ``token``: "" for none."""

    hosts: frozenset[str] = frozenset()
    token: str = ""

    def refusal(
        self, values: Values, address: str, *, path: bytes = b"/", http10: bool = False
    ) -> Refusal | None:
        """Return why a request with these headers is refused, or None if it is not.

        ``path``: what is asked for, as it came, without the query.
        ``address``: ours, at which its connection came in; "" for a socket in the file system,
        which no browser can reach, so that its name does not matter. HTTP/1.0 knows requests
        without a Host (RFC 9112, section 3.2, asks for exactly one from HTTP/1.1 on).
        """
        hosts, is_check = values(b"host"), path in (READY, HEALTH)
        if len(hosts) > 1 or (not hosts and not http10 and not is_check):
            return Refusal(400, "a request has exactly one Host header")
        host = _host_in(values)
        if not _HOST.fullmatch(host):  # RFC 9112, section 3.2
            return Refusal(400, "the Host header names no host")
        is_ours = self._is_ours(host, address)
        if not is_ours and not is_check:
            return Refusal(421, _not_ours(host))
        origins, sites = values(b"origin"), values(b"sec-fetch-site")
        foreign = origins and not (is_ours and _origins_of(host).issuperset(origins))
        if foreign or not _SAME_SITE.issuperset(sites):
            return Refusal(403, "web pages of other sites may not use this proxy")
        if self.token and not self._is_known(values, path):
            return Refusal(
                401,
                "this proxy asks for its token: give it as the client's API key, "
                "or in the header X-Cacheproxy-Token",
            )
        return None

    def is_named(self, values: Values, address: str) -> bool:
        """Whether who asks calls us by a name of ours. Else it may be a web page's (see above)."""
        return self._is_ours(_host_in(values), address)

    @property
    def cookie(self) -> tuple[bytes, bytes]:
        """The cookie that opens our own pages to who has shown the token: its name and value.

        Both are derived from the token. Cookies are sent to every port of a host: two proxies
        there must not overwrite each other's, nor may another server learn the token.
        """
        name, value = (
            hmac.digest(self.token.encode(), use, "sha256").hex().encode()
            for use in (b"cacheproxy cookie name", b"cacheproxy cookie")
        )
        return b"cacheproxy-" + name[:8], value

    def _is_known(self, values: Values, path: bytes) -> bool:
        """Whether who asks has the token, or needs none for ``path``."""
        if path in _OPEN or path.startswith(_OPEN_FOLDER):
            return True
        if self.token_headers(values):
            return True
        return path.startswith(OWN + b"/") and self._has_cookie(values)

    def _has_cookie(self, values: Values) -> bool:
        name, wanted = self.cookie
        pairs = (pair for value in values(b"cookie") for pair in value.split(b";"))
        found = [
            value.strip() for key, _, value in (p.partition(b"=") for p in pairs)
            if key.strip() == name
        ]  # fmt: skip
        return any(hmac.compare_digest(value, wanted) for value in found)

    def token_headers(self, values: Values) -> list[bytes]:
        """Return the names of the headers that hold the token: they are not the upstream's."""
        return [
            name
            for name in _CREDENTIALS
            if any(self._is_token(name, value) for value in values(name))
        ]

    def without_token(self, target: bytes) -> bytes:
        """Return ``target`` without a ``key`` in its query that is the token.

        Google's clients, and what is built like them, give their API key there as well.
        """
        path, mark, query = target.partition(b"?")
        if b"key=" not in query:
            return target
        parts = query.split(b"&")
        kept = [part for part in parts if not self._is_token_in_query(part)]
        return target if kept == parts else path + (mark if kept else b"") + b"&".join(kept)

    def _is_token_in_query(self, part: bytes) -> bool:
        name, _, value = part.partition(b"=")
        found = unquote_to_bytes(value.replace(b"+", b" "))
        return name == b"key" and hmac.compare_digest(found, self.token.encode())

    def _is_token(self, name: bytes, value: bytes) -> bool:
        if name == b"authorization":
            scheme, _, value = value.partition(b" ")
            if scheme.lower() != b"bearer":
                return False
        return hmac.compare_digest(value.strip(), self.token.encode())

    def _is_ours(self, host: str, address: str) -> bool:
        name = host_name(host)
        if not address or name == "localhost" or name in self.hosts:
            return True
        return _is_loopback(name) or name == address.removeprefix("::ffff:")


def _host_in(values: Values) -> str:
    hosts = values(b"host")
    return hosts[0].decode("latin-1").strip() if hosts else "localhost"


@lru_cache(maxsize=64)
def _is_loopback(name: str) -> bool:
    """Whether ``name`` is an address of this machine alone."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _origins_of(host: str) -> set[bytes]:
    """What pages of ours are named by in the header Origin (RFC 6454, section 7)."""
    return {f"http://{host}".encode("latin-1"), f"https://{host}".encode("latin-1")}


def host_name(host: str) -> str:
    """Return the name in a Host header or URL authority, lower case, without port and brackets."""
    name, _, port = host.rpartition(":")
    if not port.isdecimal() or (":" in name and not name.endswith("]")):
        name = host
    return name.removeprefix("[").removesuffix("]").lower()


def _not_ours(host: str) -> str:
    name = host_name(host)
    if _NAME.match(name):
        return f"host {name} is not allowed: add --allow-host {name}"
    return "the host of the request's Host header is not allowed: see --allow-host"
