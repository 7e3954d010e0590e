"""Content codings that can be undone (RFC 9110, section 8.4.1)."""

from __future__ import annotations

import zlib

from cacheproxy.core.http1.headers import values
from cacheproxy.core.prompt.request import Headers

_LARGEST = 64 << 20
"""Bytes of a decoded body: a few kilobytes may claim to be gigabytes."""
_CODINGS = {b"gzip", b"x-gzip", b"deflate"}
_COMPRESSED = (47, -15)
"""zlib's ``wbits``: gzip or zlib by its head; and "deflate" as some send it, bare."""


def decoded(body: bytes, headers: Headers) -> bytes:
    """Return ``body`` without its content coding; itself if it has none, or that fails."""
    codings = {value.strip().lower() for value in values(headers, b"content-encoding")}
    if len(codings) != 1 or not codings <= _CODINGS:
        return body
    for bits in _COMPRESSED:
        reader = zlib.decompressobj(bits)
        try:
            found = reader.decompress(body, _LARGEST)
        except zlib.error:
            continue
        return body if reader.unconsumed_tail else found
    return body
