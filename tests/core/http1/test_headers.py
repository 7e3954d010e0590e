"""Which headers pass a proxy."""

import pytest

from cacheproxy.core.http1.headers import end_to_end, values


@pytest.mark.parametrize(
    "name",
    [
        *(b"Connection", b"Keep-Alive", b"Proxy-Connection", b"Proxy-Authenticate", b"Upgrade"),
        *(b"Proxy-Authorization", b"TE", b"Trailer", b"Transfer-Encoding", b"tRANSFER-eNCODING"),
    ],
)
def test_hop_by_hop_headers_do_not_pass(name):
    """RFC 9110, section 7.6.1, in any case; nor the caller's own further names."""
    headers = ((b"A", b"1"), (name, b"x"), (b"HOST", b"x"), (b"B", b"2"))
    assert end_to_end(headers, frozenset({b"host"})) == ((b"A", b"1"), (b"B", b"2"))


def test_headers_named_by_connection_do_not_pass_the_others_as_they_came():
    """Every Connection header counts, in any case, with any spacing and empty items."""
    dropped = (
        (b"X-One", b"1"),
        (b"connection", b"close,, x-ONE ,\tX-Two"),
        (b"x-two", b"2"),
        (b"CONNECTION", b"HTTP2-Settings"),
        (b"http2-settings", b"x"),
        (b"Close", b"4"),
    )
    kept = (
        (b"Host", b"localhost"),
        (b"Set-Cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"X-Empty", b""),
        (b"X-Connection", b"close"),
        (b"X-One-More", b"\xff"),
    )
    mixed = tuple(pair for pairs in zip(dropped, kept, strict=True) for pair in pairs)
    assert end_to_end(mixed) == kept
    assert end_to_end(kept) == kept


def test_values_are_all_of_a_name():
    """In their order, whatever the case."""
    headers = ((b"Via", b"1"), (b"X", b"2"), (b"VIA", b"3"))
    assert values(headers, b"via") == [b"1", b"3"]
    assert values(headers, b"none") == []
