"""The dashboard's installed files: its page, scripts, style and the chart library."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from importlib.resources import files

from twisted.web.server import Request

from cacheproxy.core.http1.headers import tokens
from cacheproxy.web.pages import Content, DirectPage, only, respond, values

PAGE = b"/_cacheproxy/"
FOLDER = b"/_cacheproxy/static/"
LEADING_HERE = (b"/_cacheproxy", b"/dashboard")
_TYPES = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
}
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy: nothing from elsewhere, nothing inline, no frames on other sites."""


def static_file(kind: bytes, body: bytes) -> DirectPage:
    """Return the page of a file in memory, gzipped for a browser that accepts that.

    It answers 304 only if If-None-Match is exactly its tag (RFC 9110, 13.1.2, allows lists).
    """
    packed = gzip.compress(body, mtime=0)
    etag = b'W/"%s"' % hashlib.sha256(body).hexdigest()[:16].encode()
    headers = (
        (b"Cache-Control", b"no-cache"),
        (b"Content-Security-Policy", _POLICY),
        (b"ETag", etag),
        (b"Vary", b"Accept-Encoding"),
    )

    def page(request: Request) -> bytes:
        only(request)
        if values(request, b"if-none-match") == [etag]:
            request.setResponseCode(304)
            for name, value in headers:
                request.setHeader(name, value)
            return b""
        # a coding with any weight counts as refused, as one with q=0 is
        if b"gzip" in tokens(values(request, b"accept-encoding")):
            coded = (*headers, (b"Content-Encoding", b"gzip"))
            return respond(request, Content(kind, packed, headers=coded))
        return respond(request, Content(kind, body, headers=headers))

    return page


def redirect(request: Request) -> bytes:
    """Answer 302 to PAGE; browsers keep the fragment, which may hold the token."""
    return respond(
        request, Content(b"text/plain", b"see /_cacheproxy/\n", 302, ((b"Location", PAGE),))
    )


def static_files() -> Mapping[bytes, DirectPage]:
    """Return the pages of the static files, by path; those of LEADING_HERE redirect to PAGE."""
    found: dict[bytes, DirectPage] = dict.fromkeys(LEADING_HERE, redirect)
    for entry in (files("cacheproxy.web") / "static").iterdir():
        kind = _TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            path = PAGE if entry.name == "index.html" else FOLDER + entry.name.encode()
            found[path] = static_file(kind, entry.read_bytes())
    return found
