"""Header lines that go on in the next one (RFC 9112, section 5.2): unfolded, or refused."""

from __future__ import annotations

import pytest

from .harness import whole


def test_a_folded_header_of_an_answer_arrives_on_one_line(connect, respond):
    """The client need not know folding."""
    respond(whole(b"hi", b"X-Folded: one\r\n two\r\n\tthree"))
    (value,) = connect().ask().answer().values(b"x-folded")
    assert value.split() == [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    "fields",
    [
        b"X-Folded: one\r\n two\r\n\tthree\r\n",
        b"Transfer-Encoding:\r\n chunked\r\n",
        b"X: 1\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\n 6\r\n",
    ],
)
def test_a_request_with_one_is_refused(connect, upstream, fields):
    """What others read as a header of its own may frame another request."""
    client = connect()
    client.send(b"POST /x HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n0\r\n\r\n")
    assert client.answer().status == 400
    assert upstream.requests.empty()
