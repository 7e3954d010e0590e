"""Which headers pass a proxy."""

from __future__ import annotations

import pytest

from cacheproxy.core.http1.headers import end_to_end, values


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"Keep-Alive",
        b"Proxy-Connection",
        b"Proxy-Authenticate",
        b"Proxy-Authorization",
        b"TE",
        b"Trailer",
        b"Transfer-Encoding",
        b"Upgrade",
        b"tRANSFER-eNCODING",
    ],
)
def test_hop_by_hop_headers_do_not_pass(name):
    """RFC 9110, section 7.6.1, in any case."""
    assert end_to_end(((b"A", b"1"), (name, b"x"), (b"B", b"2"))) == ((b"A", b"1"), (b"B", b"2"))


def test_headers_named_by_connection_do_not_pass():
    """Every Connection header counts, in any case, with any spacing and empty items."""
    headers = (
        (b"X-One", b"1"),
        (b"connection", b"close,, x-ONE ,\tX-Two"),
        (b"x-two", b"2"),
        (b"X-Three", b"3"),
        (b"CONNECTION", b"HTTP2-Settings"),
        (b"http2-settings", b"x"),
        (b"Close", b"4"),
        (b"X-One-More", b"5"),
    )
    assert end_to_end(headers) == ((b"X-Three", b"3"), (b"X-One-More", b"5"))


def test_everything_else_passes_as_it_came():
    """Order, case, duplicates, empty values and framing stay: each side settles its own."""
    headers = (
        (b"Host", b"localhost"),
        (b"Set-Cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"X-Empty", b""),
        (b"Content-Length", b"5"),
        (b"Authorization", b"Bearer x"),
        (b"X-Connection", b"close"),
        (b"Sec-WebSocket-Key", b"\xff"),
    )
    assert end_to_end(headers) == headers
    assert end_to_end(()) == ()


def test_also_takes_further_names():
    """The caller's own list, in lower case, is dropped too."""
    headers = ((b"Content-Length", b"5"), (b"HOST", b"x"), (b"A", b"1"))
    assert end_to_end(headers, frozenset({b"content-length", b"host"})) == ((b"A", b"1"),)


def test_values_are_all_of_a_name():
    """In their order, whatever the case."""
    headers = ((b"Via", b"1"), (b"X", b"2"), (b"VIA", b"3"))
    assert values(headers, b"via") == [b"1", b"3"]
    assert values(headers, b"none") == []
