"""Who may use the proxy: programs on this machine, or those who know the token.

A web page from another site can make a browser send requests to loopback, and can give that
address a host name of its own (DNS rebinding). It cannot remove the headers that show this.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from cacheproxy.core.http1.headers import CREDENTIALS
from cacheproxy.core.http1.request_head import AUTHORITY, BAD_HOST, ONE_HOST
from cacheproxy.core.privacy.origins import (
    FOR_OTHERS,
    NOT_SHARED,
    Sharing,
    Values,
    for_page,
    is_origin,
    is_preflight,
)
from cacheproxy.core.prompt.request import Headers

TOKEN_HEADER = b"x-cacheproxy-token"
"""Where a client gives the token that needs its API key for the upstream."""
_COOKIE = b"cacheproxy-"
"""How the names of our cookies begin, of each proxy on a machine."""

OWN = b"/_cacheproxy"
"""Our own pages are under this path; everything else belongs to the upstream, but for …"""
DASHBOARD = b"/dashboard"
"""… what leads to our own page, for those who look for it there."""
READY, HEALTH = OWN + b"/ready", OWN + b"/health"
"""What load balancers ask for, by whatever name they have for us, or none."""
_OPEN = (OWN, OWN + b"/", DASHBOARD, READY)
_OPEN_FOLDER = OWN + b"/static/"
"""What holds no data: the page that asks for the token, and its script."""

_CREDENTIALS = (TOKEN_HEADER, *sorted(CREDENTIALS), b"x-goog-api-key")
"""Where clients put what they take for an API key; the last one is Gemini CLI's."""
_PASSED_ON = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")
_NAME = re.compile(r"[A-Za-z0-9.-]{1,253}\Z")
_SHOWN = re.compile(r"[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?")
_PORTS = {b"http": "80", b"https": "443"}
_SAME_SITE = {b"same-origin", b"none"}
"""https://www.w3.org/TR/fetch-metadata/: "none" is a user who typed the address."""


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a request goes no further."""

    status: int  #: of the answer
    message: str  #: one sentence


class Door(NamedTuple):
    """Where a connection came in."""

    address: str = ""  #: of ours, "" for a socket in the file system
    port: int = 0  #: of ours
    secure: bool = False  #: whether it is encrypted


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask."""

    hosts: frozenset[str] = frozenset()  #: names besides localhost under which clients may ask
    token: str = ""  #: that they have to send, "" for none
    origins: frozenset[bytes] = frozenset()  #: whose web pages may ask besides our own

    def refusal(
        self,
        values: Values,
        address: str,
        *,
        method: bytes = b"POST",
        path: bytes = b"/",
        http10: bool = False,
    ) -> AccessRefusal | None:
        """Return why a request with these headers is refused, or None if it is not.

        ``path``: what is asked for, as it came, without the query.
        ``address``: ours, at which its connection came in; "" for a socket in the file system,
        which no browser can reach, so that its name does not matter. HTTP/1.0 knows requests
        without a Host (RFC 9112, section 3.2, asks for exactly one from HTTP/1.1 on).
        """
        if method == b"CONNECT":
            return AccessRefusal(501, f"there are no tunnels here: {_no_proxy('HTTPS_PROXY')}")
        hosts, is_check = values(b"host"), path in (READY, HEALTH)
        if len(hosts) > 1 or (not hosts and not http10 and not is_check):
            return AccessRefusal(400, ONE_HOST)
        host = hosts[0].decode("latin-1").strip() if hosts else "localhost"
        if not AUTHORITY.fullmatch(host):  # RFC 9112, section 3.2
            return AccessRefusal(400, BAD_HOST)
        is_ours = self._is_ours(host, address)
        if not is_ours and not is_check:
            return AccessRefusal(421, _not_ours(host))
        origins = values(b"origin")
        if self.origins and self._allows(origins, path):
            if is_preflight(method, values):  # without credentials, so without a token
                return None
        else:
            is_foreign = bool(origins)
            if origins and is_ours:
                # What pages of ours are named by in the header Origin (RFC 6454, section 7).
                ours = {scheme + b"://" + host.encode("latin-1") for scheme in _PORTS}
                is_foreign = not ours.issuperset(origins)
            if is_foreign or not _SAME_SITE.issuperset(values(b"sec-fetch-site")):
                return AccessRefusal(403, _not_allowed(origins, path))
        if self.token and not self._is_known(values, path):
            return AccessRefusal(
                401,
                "this proxy needs its token: send it as the client's API key, or in the header "
                "X-Cacheproxy-Token",
            )
        return None

    def misdirected(self, values: Values, scheme: bytes, door: Door) -> AccessRefusal | None:
        """Return why a request for a whole URL is refused, or None if the URL is ours.

        ``values``: of its headers, with the URL's host and port for a Host. ``scheme``: the URL's.

        A client sends a URL to its forward proxy. With another port than ours it asks another
        server of this machine, whose credentials are not for the upstream. A name that was
        allowed may have any port: that of whoever passes its requests on to us.
        """
        if not door.address:
            return None
        host = _host_in(values)
        is_here = _port_in(host, scheme) == str(door.port) and self._is_ours(host, door.address)
        if scheme not in _PORTS or not (is_here or host_name(host) in self.hosts):
            shown = host if _SHOWN.fullmatch(host) else "another server"
            return AccessRefusal(421, f"the request is for {shown}: {_no_proxy('HTTP_PROXY')}")
        if scheme == b"https" and not door.secure:  # RFC 9110, section 7.4
            return AccessRefusal(
                421, "this address is not encrypted: write http:// instead of https://"
            )
        return None

    def sharing(self, method: bytes, path: bytes, values: Values) -> Sharing:
        """Return what the answer to a request says about web pages of other origins."""
        if not self.origins or is_own(path):
            return NOT_SHARED
        found = values(b"origin")
        return for_page(found[0], method, values) if self._allows(found, path) else FOR_OTHERS

    def _allows(self, origins: Sequence[bytes], path: bytes) -> bool:
        """Whether a page asks whose origin was allowed. Our own pages are for nobody else's."""
        return len(origins) == 1 and origins[0] in self.origins and not is_own(path)

    def is_named(self, values: Values, address: str) -> bool:
        """Whether who asks calls us by a name of ours. Else it may be a web page's (see above)."""
        return self._is_ours(_host_in(values), address)

    def is_trusted(self, values: Values, peer: str) -> bool:
        """Whether who asks may see prompts and change settings: with the token, or on this machine.

        Where there is a token, nobody comes this far without it. ``peer``: the address that the
        connection came from, "" for a socket in the file system; another proxy before this one
        says that it passes on what others ask.
        """
        if self.token:
            return True
        is_passed_on = any(values(name) for name in _PASSED_ON)
        return not is_passed_on and (not peer or _is_loopback(peer.removeprefix("::ffff:")))

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
        return _COOKIE + name[:8], value

    def _is_known(self, values: Values, path: bytes) -> bool:
        """Whether who asks has the token, or needs none for ``path``."""
        if path in _OPEN or path.startswith(_OPEN_FOLDER):
            return True
        if self.token_headers(values):
            return True
        if not path.startswith(OWN + b"/"):
            return False
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


def without_our_cookies(headers: Headers) -> Headers:
    """Return ``headers`` without the cookies that open pages of cacheproxy, of this one or another.

    A browser sends cookies to every port of a host.
    """
    found = []
    for name, value in headers:
        if name.lower() == b"cookie" and _COOKIE in value:
            pairs = [pair for pair in value.split(b";") if not pair.strip().startswith(_COOKIE)]
            if not pairs:
                continue
            value = b";".join(pairs).lstrip()  # noqa: PLW2901 - the one that is kept
        found.append((name, value))
    return tuple(found)


def is_own(path: bytes) -> bool:
    """Whether ``path`` is of our own pages, not the upstream's."""
    return path in (OWN, DASHBOARD) or path.startswith(OWN + b"/")


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


@lru_cache(maxsize=64)
def host_name(host: str) -> str:
    """Return the name in a Host header or URL authority, lower case, without port and brackets."""
    name, _, port = host.rpartition(":")
    if (port and not port.isdecimal()) or (":" in name and not name.endswith("]")):
        name = host
    return name.removeprefix("[").removesuffix("]").lower()


def _port_in(host: str, scheme: bytes) -> str:
    """Return the port in a URL's authority, the scheme's own if there is none."""
    _, colon, port = host.rpartition(":")
    return port.lstrip("0") if colon and port.isdecimal() else _PORTS.get(scheme, "")


def _no_proxy(variable: str) -> str:
    return (
        f"{variable} is most likely set to this proxy's address; unset it, and make that address "
        "the client's base URL (cacheproxy env shows how)"
    )


def _not_allowed(origins: Sequence[bytes], path: bytes) -> str:
    if is_own(path) or len(origins) != 1 or not is_origin(origins[0]):
        return "web pages of other sites may not use this proxy"
    name = origins[0].decode()
    return f"web pages of {name} may not use this proxy: if it is yours, add --allow-origin {name}"


def _not_ours(host: str) -> str:
    name = host_name(host)
    if _NAME.match(name):
        return f"host {name} is not allowed: add --allow-host {name}"
    return "the host of the request's Host header is not allowed: see --allow-host"
