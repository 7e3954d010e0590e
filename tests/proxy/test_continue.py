"""Expect: 100-continue (RFC 9110, section 10.1.1): said only to who may send on."""

from __future__ import annotations

import pytest

from .conftest import MOST_MIB

EXPECT = b"Expect: 100-continue"
CHUNKED = b"Transfer-Encoding: chunked"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MOST = MOST_MIB << 20


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (421, (b"Host: evil.example",)),
        (403, (b"Host: localhost", b"Origin: https://evil.example")),
        (400, (b"X: 1",)),
        (431, (b"Host: localhost", b"X: " + b"x" * 70_000)),
    ],
)
def test_who_is_refused_is_not_told_to_continue(connect, upstream, status, fields):
    """The refusal comes first, before any of the body is sent."""
    client = connect()
    lines = (b"POST /v1/messages HTTP/1.1", EXPECT, *fields, b"Content-Length: 10", b"", b"")
    client.send(b"\r\n".join(lines))
    answer = client.answer()
    assert (answer.status, answer.end, answer.interim) == (status, "whole", [])
    assert upstream.requests.empty()


def test_a_chunked_body_over_the_limit_is_refused_all_the_same(connect, upstream):
    """Its size is not known before: it is told to continue once, then refused."""
    client = connect().ask("/v1/messages", None, EXPECT, CHUNKED)
    assert client.read_until(b"\r\n\r\n") == CONTINUE
    for _ in range(MOST >> 20):
        client.chunk(b"x" * (1 << 20))
    client.chunk(b"x")
    answer = client.answer()
    assert (answer.status, answer.end, answer.interim) == (413, "whole", [])
    assert upstream.requests.empty()


def test_a_client_that_does_not_wait_for_it(connect, upstream):
    """Its body is taken, chunked or not."""
    client = connect().ask("/x", b"abc", EXPECT)
    assert client.answer().status == 200
    client.ask("/x", None, EXPECT, CHUNKED)
    client.chunk(b"abc")
    client.send(b"0\r\n\r\n")
    assert client.answer().status == 200
    assert [upstream.received().body for _ in range(2)] == [b"abc", b"abc"]
