"""The head of a request (RFC 9112): request line, headers, and the length of the body."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cacheproxy.core.http1.headers import by_name, tokens
from cacheproxy.core.prompt.request import Headers

# RFC 3986, section 3.2.2: an address in brackets, or a name; and a port. User and password are an
# error by RFC 9110, section 4.2.4.
AUTHORITY = re.compile(
    r"(\[[0-9A-Za-z:.%~_-]+\]|(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)
# RFC 3986, section 3: scheme and authority are checked here, the rest by the upstream.
_URL = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*+)://([^/?#]*+)(.*)")
NOT_HTTP = "the request is not valid HTTP/1.1"
ONE_HOST = "a request has exactly one Host header"
BAD_HOST = "the Host header names no host"
_MOST_DIGITS = 32
"""Digits of a Content-Length at most; int() refuses 4300."""


def absolute(method: bytes, target: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return scheme (lower case), authority and path of a URL; None if ``target`` is no URL.

    A URL without a path means ``/``, or with OPTIONS ``*``, the server as a whole (RFC 9112,
    sections 3.2.1 and 3.2.4). Raises RequestError for a URL without a host.
    """
    found = _URL.fullmatch(target)
    if found is None:
        return None
    scheme, authority, path = found.groups()
    host = AUTHORITY.fullmatch(authority.decode("latin-1"))
    if host is None or not host[1] or path.startswith(b"#"):
        raise RequestError(400, "the URL in the request line names no host")
    if not path:
        path = b"*" if method == b"OPTIONS" else b"/"
    elif path.startswith(b"?"):
        path = b"/" + path
    return scheme.lower(), authority, path


@dataclass(frozen=True)
class RequestLimits:
    """The limits of a request's size."""

    body: int = 64 << 20  #: bytes of the body at most
    head: int = 64 << 10  #: bytes of the head at most, without the target
    target: int = 32 << 10  #: bytes of the target at most
    headers: int = 1000  #: number of headers at most


class RequestError(ValueError):
    """The bytes are no acceptable request. ``status``: status of the answer; the text: its body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @classmethod
    def too_large(cls, limits: RequestLimits) -> RequestError:
        """Return the error for a body over the limit."""
        return cls(413, f"the request body is larger than {limits.body >> 20} MiB")


class RequestHead:
    """The request line and headers of a request.

    ``method``, ``target``, ``version`` (HTTP/1.0 or HTTP/1.1), ``headers`` (pairs of name and
    value): all as they came. ``scheme``: scheme of a target that was a URL, in lower case; b"" if
    it was none. ``values``: function of a name in lower case that returns the header's values.
    ``path``: target without its query. ``length``: bytes of the body, None if it is chunked.
    ``persistent``: whether the client lets the connection serve another request (section 9.3).
    Raises RequestError for an ambiguous length.
    """

    __slots__ = (
        *("headers", "length", "method", "path", "persistent", "scheme", "target", "values"),
        "version",
    )

    def __init__(
        self, method: bytes, target: bytes, version: bytes, headers: Headers, scheme: bytes = b""
    ) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        self.scheme = scheme
        self.path = target.partition(b"?")[0]
        values = self.values = by_name(headers)
        is_last = b"close" in tokens(values(b"connection"))
        self.persistent = version == b"HTTP/1.1" and not is_last
        self.length: int | None = 0
        lengths, codings = values(b"content-length"), values(b"transfer-encoding")
        if codings:
            self._check(codings, lengths)
            self.length = None
        elif lengths:
            length = lengths[0]
            if len(lengths) > 1 or not length.isdigit() or len(length) > _MOST_DIGITS:
                raise RequestError(400, "the Content-Length is not a valid number")
            self.length = int(length)

    def _check(self, codings: list[bytes], lengths: list[bytes]) -> None:
        """Raise RequestError unless the body is chunked, and nothing else (section 6.3)."""
        if lengths or self.version != b"HTTP/1.1":  # section 6.1
            raise RequestError(400, NOT_HTTP)
        found = tokens(codings)
        if found != [b"chunked"]:
            # Codings before it are not supported; if it is not the last, the body's end is unknown
            # (section 6.3, 4).
            is_clear = found[-1] == b"chunked" and found.count(b"chunked") == 1
            why = "a request may only have the Transfer-Encoding chunked"
            raise RequestError(501 if is_clear else 400, why)

    def without(self, names: list[bytes], target: bytes | None = None) -> RequestHead:
        """Return this head without the headers ``names`` (lower case); ``target``: a new one."""
        left = tuple([one for one in self.headers if one[0].lower() not in names])
        wanted = self.target if target is None else target
        return RequestHead(self.method, wanted, self.version, left, self.scheme)

    def in_origin_form(self) -> RequestHead:
        """Return this head with the path of a target that is a URL, and the URL's host as Host.

        Section 3.2.2. Raises RequestError if the Host that came is not valid (section 3.2). A head
        with another target is returned as it is.
        """
        url = absolute(self.method, self.target)
        if url is None:
            return self
        hosts = self.values(b"host")
        if len(hosts) > 1 or (not hosts and self.version != b"HTTP/1.0"):
            raise RequestError(400, ONE_HOST)
        if hosts and not AUTHORITY.fullmatch(hosts[0].decode("latin-1")):
            raise RequestError(400, BAD_HOST)
        others = [one for one in self.headers if one[0].lower() != b"host"]
        scheme, authority, path = url
        headers = ((b"Host", authority), *others)
        return RequestHead(self.method, path, self.version, headers, scheme)

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for a 100 before it sends its body (RFC 9110, 10.1.1)."""
        expected = self.values(b"expect")
        return bool(
            expected
            and expected[0].lower() == b"100-continue"
            and self.version == b"HTTP/1.1"
            and self.length != 0
        )
