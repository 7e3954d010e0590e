"""A response's head: its headers by name, in whatever case, repeated or not."""

from __future__ import annotations

import pytest

from cacheproxy.core.http1.response_head import ResponseHead

HEAD = ResponseHead(
    200,
    b"OK",
    (
        (b"Content-Type", b"Text/Event-Stream; charset=UTF-8"),
        (b"vary", b"Origin, ACCEPT"),
        (b"Vary", b"cookie"),
    ),
)


def test_headers_are_found_whatever_the_names_case():
    """Tokens are what stands between commas, and in lower case as the content type is."""
    assert HEAD.values(b"vary") == [b"Origin, ACCEPT", b"cookie"]
    assert HEAD.tokens(b"vary") == [b"origin", b"accept", b"cookie"]
    assert HEAD.content_type == b"text/event-stream; charset=utf-8"
    bare = ResponseHead(200, b"OK", ())
    assert (bare.content_type, bare.tokens(b"vary"), bare.values(b"vary")) == (b"", [], [])


@pytest.mark.parametrize(
    ("length", "fields", "alone"),
    [
        (None, (), True),
        (5, ((b"Content-Length", b"5"),), False),
        (None, ((b"Transfer-Encoding", b"chunked"),), False),
    ],
)
def test_a_body_without_framing_ends_with_its_connection(length, fields, alone):
    """RFC 9112, section 6.3."""
    assert ResponseHead(200, b"OK", fields, length).ends_with_connection is alone
