"""Access control: programs on this machine, or clients with the token, may use the proxy.

A web page from another site can make a browser send requests to loopback, and can give that
address a host name of its own (DNS rebinding). It cannot remove the headers that reveal this.
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
"""Header with the token, for a client whose API key is for the upstream."""
_COOKIE = b"cacheproxy-"
"""Prefix of the names of our cookies, common to all proxies on a machine."""

OWN = b"/_cacheproxy"
"""Folder of our own pages; all paths but this and DASHBOARD belong to the upstream."""
DASHBOARD = b"/dashboard"
"""Path that leads to our own page, for people who expect it there."""
READY, HEALTH = OWN + b"/ready", OWN + b"/health"
"""Paths of health checks; load balancers may request them with any Host header, or none."""
_OPEN = (OWN, OWN + b"/", DASHBOARD, READY)
_OPEN_FOLDER = OWN + b"/static/"
"""Paths that need no token, as they have no data: the page that prompts for it, and its script."""

_CREDENTIALS = (TOKEN_HEADER, *sorted(CREDENTIALS), b"x-goog-api-key")
"""Headers in which clients send an API key; the last one is Gemini CLI's."""
_PASSED_ON = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")
_NAME = re.compile(r"[A-Za-z0-9.-]{1,253}\Z")
_SHOWN = re.compile(r"[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?")
_PORTS = {b"http": "80", b"https": "443"}
_SAME_SITE = {b"same-origin", b"none"}
"""Sec-Fetch-Site of our pages, and of a typed address (https://www.w3.org/TR/fetch-metadata/)."""


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """The refusal of a request."""

    status: int  #: status of the answer
    message: str  #: reason, in one sentence


class Door(NamedTuple):
    """Our end of a connection."""

    address: str = ""  #: our address, "" for a socket in the file system
    port: int = 0  #: our port
    secure: bool = False  #: whether the connection is encrypted


@dataclass(frozen=True, slots=True)
class Access:
    """The access control with its settings."""

    hosts: frozenset[str] = frozenset()  #: host names, besides localhost, that clients may use
    token: str = ""  #: token that clients have to send, "" for none
    origins: frozenset[bytes] = frozenset()  #: other origins whose web pages may send requests

    def refusal(
        self,
        values: Values,
        address: str,
        *,
        method: bytes = b"POST",
        path: bytes = b"/",
        http10: bool = False,
    ) -> AccessRefusal | None:
        """Return the refusal of a request with these headers, or None if it is allowed.

        ``path``: path of the request, as received, without the query.
        ``address``: our address of the connection; "" for a socket in the file system, which no
        browser can reach, so that the Host does not matter. HTTP/1.0 has requests without a Host
        (RFC 9112, section 3.2, requires exactly one from HTTP/1.1 on).
        """
        if method == b"CONNECT":
            return AccessRefusal(501, f"there are no tunnels here: {_no_proxy('HTTPS_PROXY')}")
        hosts, is_check = values(b"host"), path in (READY, HEALTH)
        if len(hosts) > 1 or (not hosts and not http10 and not is_check):
            return AccessRefusal(400, ONE_HOST)
        host = hosts[0].decode("latin-1").strip() if hosts else "localhost"
        if not AUTHORITY.fullmatch(host):  # RFC 9112, section 3.2
            return AccessRefusal(400, BAD_HOST)
        is_ours = _is_ours(host, address, self.hosts)
        if not is_ours and not is_check:
            return AccessRefusal(421, _not_ours(host))
        origins = values(b"origin")
        if self.origins and self._allows(origins, path):
            if is_preflight(method, values):  # without credentials, so without a token
                return None
        else:
            is_foreign = bool(origins)
            if origins and is_ours:
                # The values of the Origin header for our own pages (RFC 6454, section 7).
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
        """Return the refusal of a request for an absolute URL, or None if the URL is ours.

        ``values``: its headers, with the URL's host and port as Host. ``scheme``: the URL's.

        A client sends an absolute URL to its forward proxy. A URL with another port than ours is
        for another server of this machine, whose credentials must not reach the upstream. An
        allowed host name may have any port: that of a proxy before this one.
        """
        if not door.address:
            return None
        host = _host_in(values)
        is_here = _port_in(host, scheme) == str(door.port)
        is_here = is_here and _is_ours(host, door.address, self.hosts)
        if scheme not in _PORTS or not (is_here or host_name(host) in self.hosts):
            shown = host if _SHOWN.fullmatch(host) else "another server"
            return AccessRefusal(421, f"the request is for {shown}: {_no_proxy('HTTP_PROXY')}")
        if scheme == b"https" and not door.secure:  # RFC 9110, section 7.4
            return AccessRefusal(
                421, "this address is not encrypted: write http:// instead of https://"
            )
        return None

    def sharing(self, method: bytes, path: bytes, values: Values) -> Sharing:
        """Return the CORS headers for the answer to a request."""
        if not self.origins or is_own(path):
            return NOT_SHARED
        found = values(b"origin")
        return for_page(found[0], method, values) if self._allows(found, path) else FOR_OTHERS

    def _allows(self, origins: Sequence[bytes], path: bytes) -> bool:
        """Whether a page of an allowed origin may request ``path``, which is none of our own."""
        return len(origins) == 1 and origins[0] in self.origins and not is_own(path)

    def is_named(self, values: Values, address: str) -> bool:
        """Whether the Host is a name of ours; any other may be a web page's (DNS rebinding)."""
        return _is_ours(_host_in(values), address, self.hosts)

    def is_trusted(self, values: Values, peer: str) -> bool:
        """Whether a client may see prompts and change settings: with the token, or on this machine.

        If there is a token, ``refusal`` has checked it. ``peer``: the client's address, "" for a
        socket in the file system. A proxy before this one adds headers for the clients it serves.
        """
        if self.token:
            return True
        is_passed_on = any(values(name) for name in _PASSED_ON)
        return not is_passed_on and (not peer or _is_loopback(peer.removeprefix("::ffff:")))

    @property
    def cookie(self) -> tuple[bytes, bytes]:
        """Name and value of the cookie that opens our own pages to a browser that sent the token.

        Both are derived from the token. Cookies are sent to every port of a host: two proxies
        there must not overwrite each other's, nor may another server learn the token.
        """
        name, value = (
            hmac.digest(self.token.encode(), use, "sha256").hex().encode()
            for use in (b"cacheproxy cookie name", b"cacheproxy cookie")
        )
        return _COOKIE + name[:8], value

    def _is_known(self, values: Values, path: bytes) -> bool:
        """Whether a client has sent the token, or needs none for ``path``."""
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
        """Return the names of the headers with the token, which are not for the upstream."""
        return [
            name
            for name in _CREDENTIALS
            if any(self._is_token(name, value) for value in values(name))
        ]

    def without_token(self, target: bytes) -> bytes:
        """Return ``target`` without a ``key`` in its query that is the token.

        Google's clients, and those built like them, send their API key there as well.
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


def without_our_cookies(headers: Headers) -> Headers:
    """Return ``headers`` without the cookies of this cacheproxy or another one.

    A browser sends cookies to every port of a host.
    """
    found = []
    for name, value in headers:
        if name.lower() == b"cookie" and _COOKIE in value:
            pairs = [pair for pair in value.split(b";") if not pair.strip().startswith(_COOKIE)]
            if not pairs:
                continue
            value = b";".join(pairs).lstrip()  # noqa: PLW2901 - the remaining cookies
        found.append((name, value))
    return tuple(found)


def is_own(path: bytes) -> bool:
    """Whether ``path`` is a page of ours, not of the upstream."""
    return path in (OWN, DASHBOARD) or path.startswith(OWN + b"/")


def _host_in(values: Values) -> str:
    hosts = values(b"host")
    return hosts[0].decode("latin-1").strip() if hosts else "localhost"


@lru_cache(maxsize=64)
def _is_ours(host: str, address: str, hosts: frozenset[str]) -> bool:
    """Whether a Host header names this proxy, at ``address``, or one of ``hosts``."""
    name = host_name(host)
    if not address or name == "localhost" or name in hosts:
        return True
    return _is_loopback(name) or name == address.removeprefix("::ffff:")


@lru_cache(maxsize=64)
def _is_loopback(name: str) -> bool:
    """Whether ``name`` is a loopback address."""
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
