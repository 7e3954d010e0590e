"""The upstream: its URL, the request heads sent to it, its connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from twisted.internet.defer import Deferred

from cacheproxy.core.dialects.dialects import UNKNOWN
from cacheproxy.core.http1.headers import CREDENTIALS, PROBE, end_to_end, values
from cacheproxy.core.kinds.base_url import server_root
from cacheproxy.core.privacy.access import TOKEN_HEADER, without_our_cookies
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.proxy.upstream.endpoints import endpoint_of

_KEYS = frozenset({"key", "api_key", "api-key", "apikey", "access_token"})
"""Names of query values that hold a client's key."""
_MORE = frozenset({b"cookie", b"x-goog-api-key"})
"""Headers that are credentials, too, but that probes do not need."""
_NOT_FORWARDED = frozenset({b"host", b"content-length", b"expect", PROBE, TOKEN_HEADER})


class UpstreamURLError(ValueError):
    """An upstream URL that cannot be used."""


@dataclass(frozen=True, slots=True)
class UpstreamURL:
    """The URL of a model server."""

    text: str  #: the URL as it was given, without a path of the API
    secure: bool  #: whether the scheme is https
    host: str  #: a name or an address
    port: int  #: TCP port
    base: str  #: path that is put before every request target

    @classmethod
    def parse(cls, text: str) -> UpstreamURL:
        """Read ``http[s]://host[:port][/base]``; raises UpstreamURLError. See ``server_root``."""
        hint = "write it like http://localhost:8080"
        if any(mark in text for mark in "@?#"):  # the URL is not shown: these parts may hold keys
            raise UpstreamURLError(
                f"upstream: the URL may not have a user, query or fragment: {hint}"
            )
        try:
            text = server_root(text)
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise UpstreamURLError(f"upstream {text!r}: {error}: {hint}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UpstreamURLError(f"upstream {text!r} is not an http or https URL: {hint}")
        if not text.isascii() or any(c <= " " or c == "\x7f" for c in text):
            raise UpstreamURLError(f"upstream {text!r}: use plain ASCII only: {hint}")
        if port == 0:
            raise UpstreamURLError(f"upstream {text!r}: port 0 cannot be used: {hint}")
        secure = parts.scheme == "https"
        return cls(
            text.rstrip("/"),
            secure,
            parts.hostname,
            port or (443 if secure else 80),
            parts.path.rstrip("/"),
        )

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


class Upstream:
    """One model server. Each request gets its own connection.

    A pool would have to tell a connection that the server is just closing from a live one: it
    cannot, and a POST must not be sent twice. One connection per request also measured 2.5 times
    faster than treq's pool. ``connect_timeout``: seconds for a connection, its TLS included.
    ``silence``: seconds that the server may send nothing from then on, 0 for no limit. ``key``: the
    proxy's own, sent instead of the client's credentials; "" for none. ``keys``: the set of it.
    ``is_trusted``: whether the server gets clients' credentials if there is no ``key``.
    """

    def __init__(
        self,
        reactor: Any,
        url: UpstreamURL,
        connect_timeout: float,
        silence: float = 0.0,
        *,
        key: str = "",
        is_trusted: bool = True,
    ) -> None:
        self.url = url
        self._host = b"Host: " + url.authority.encode()
        self._reactor = reactor
        self._silence = silence
        self._key = key.encode("latin-1", "replace")
        self.keys = frozenset((self._key,) if key else ())
        self._hides = bool(key) or not is_trusted
        self._not_forwarded = _NOT_FORWARDED
        if self._hides:
            self._not_forwarded |= CREDENTIALS | _MORE
        self._handshake = connect_timeout if url.secure else 0.0
        self.endpoint = endpoint_of(reactor, url.host, url.port, connect_timeout, secure=url.secure)

    def request(
        self, request: Request, *, via: bytes = b"", also: Headers = ()
    ) -> Deferred[UpstreamConnection]:
        """Send ``request``; fire with the connection, an IResponse, once its head is whole.

        ``also``: headers that the proxy adds to the request's own.
        Errbacks: ConnectError (refused, timed out, no such name), ResponseError, UpstreamSilent.
        Cancelling closes the connection at once.
        """
        return self.connection(request, via=via, also=also).start(self.endpoint)

    def connection(
        self, request: Request, *, via: bytes = b"", also: Headers = ()
    ) -> UpstreamConnection:
        """Return the connection for ``request``; its ``start`` sends the request."""
        base = "" if request.target == "*" else self.url.base  # OPTIONS * has no path
        target = _without_keys(request.target) if self._hides else request.target
        headers = end_to_end(request.headers, self._not_forwarded)
        if b"cookie" in request.by_name:
            headers = without_our_cookies(headers)
        lines = [
            f"{request.method} {base}{target} HTTP/1.1".encode("latin-1"),
            self._host,
            *map(b": ".join, headers),
            *map(b": ".join, also),
        ]
        if self._key:
            lines.append((request.dialect or UNKNOWN).key + self._key)
        if via:
            lines.append(b"Via: " + via)
        if request.body or values(request.headers, b"content-length"):
            lines.append(b"Content-Length: %d" % len(request.body))
        lines.append(b"Connection: close\r\n\r\n")
        return UpstreamConnection(
            b"\r\n".join(lines),
            request.body,
            request.method.encode("latin-1"),
            self._reactor,
            self._silence,
            handshake=self._handshake,
        )


def _without_keys(target: str) -> str:
    path, _, query = target.partition("?")
    pairs = query.split("&")
    kept = [pair for pair in pairs if unquote(pair.partition("=")[0]).lower() not in _KEYS]
    return target if len(kept) == len(pairs) else "?".join(filter(None, (path, "&".join(kept))))
