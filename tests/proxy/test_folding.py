"""Header lines that go on in the next one (RFC 9112, section 5.2): unfolded, or refused."""

from __future__ import annotations

import pytest

from .harness import whole


def test_a_folded_header_arrives_on_one_line(connect, upstream):
    """Its parts with space between: the upstream need not know folding."""
    client = connect()
    client.send(
        b"POST /x HTTP/1.1\r\nHost: localhost\r\nX-Folded: one\r\n two\r\n\tthree\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    assert client.answer().status == 200
    (value,) = upstream.received().values(b"x-folded")
    assert value.split() == [b"one", b"two", b"three"]
    assert not set(value) & set(b"\r\n")


def test_so_does_one_of_the_answer(connect, respond):
    """The client need not know it either."""
    respond(whole(b"hi", b"X-Folded: one\r\n two\r\n\tthree"))
    (value,) = connect().ask().answer().values(b"x-folded")
    assert value.split() == [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (b"Transfer-Encoding:\r\n chunked\r\n", 200),
        (b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n", 400),
        (b"Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n", 400),
        (b"X: 1\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 200),
        (b"Content-Length:\r\n 5\r\n", 200),
        (b"Content-Length: 5\r\n 6\r\n", 400),
    ],
)
def test_folding_hides_no_framing(connect, upstream, fields, status):
    """What is seen is what it says unfolded; nothing of the body becomes a request."""
    client = connect()
    start = b"POST /x HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n"
    client.send(start + b"0\r\n\r\n")
    assert client.answer().status == status
    if status == 200:
        received = upstream.received()
        assert received.body == (
            b"" if b"chunked" in fields and b"X" not in fields else b"0\r\n\r\n"
        )
        assert received.line == b"POST /x HTTP/1.1"
    assert upstream.requests.empty()
