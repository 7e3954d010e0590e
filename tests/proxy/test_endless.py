"""Parts of an upstream's answer that have no end: each has a limit, and costs little until then."""

from __future__ import annotations

import json
import threading

import pytest

from .harness import CHUNKED, TIMEOUT, head

MIB = 1 << 20
START = b"HTTP/1.1 200 OK\r\n"
WITHOUT_END = {
    "a status line": (b"HTTP/1.1 200 ", b"very " * 1000),
    "a name": (START, b"x" * 5000),
    "a value": (START + b"X: ", b"y" * 5000),
    "headers": (START, b"X-Header: value\r\n" * 300),
    "folded lines": (START + b"X: y\r\n", b" y\r\n" * 1000),
    "a chunk size": (CHUNKED, b"0" * 5000),
    "a chunk extension": (CHUNKED + b"a;x=", b"y" * 5000),
    "trailers": (CHUNKED + b"2\r\nhi\r\n0\r\n", b"X-Trailer: value\r\n" * 300),
    "a trailer": (CHUNKED + b"2\r\nhi\r\n0\r\nX: ", b"y" * 5000),
}


@pytest.fixture
def endless(serve):
    """Answer with some bytes, then others without end; returns what was sent, and when it ended."""

    def start(begin, again):
        sent, closed = [0], threading.Event()

        def script(peer, _):
            try:
                peer.send(begin)
                while sent[0] < 256 * MIB:
                    peer.send(again)
                    sent[0] += len(again)
            except OSError:
                closed.set()

        serve(script)
        return sent, closed

    return start


@pytest.mark.parametrize("name", WITHOUT_END)
def test_a_part_without_end_is_502_or_breaks_off_the_answer(connect, endless, proxy, name):
    """A head is given up after 256 KiB; what the kernels buffered besides is all that was sent.

    Endless framing never becomes a whole answer; it is 502, where it came together with the head.
    """
    before = proxy.memory()
    begin, again = WITHOUT_END[name]
    sent, closed = endless(begin, again)
    answer = connect().ask("/v1/messages", b"{}").answer()
    if answer.status == 200:
        assert begin.startswith(CHUNKED)
        assert answer.end in ("fin", "rst")
        assert answer.body in (b"", b"hi")
    else:
        assert (answer.status, answer.end) == (502, "whole")
        if not begin.startswith(CHUNKED):
            assert "too large" in json.loads(answer.body)["error"]["message"]
    assert closed.wait(TIMEOUT)
    assert sent[0] < 16 * MIB
    assert proxy.memory() - before < 8 * MIB


def test_a_large_head_passes(connect, respond):
    """200 KiB of it: the limit is far above what servers send."""
    large = b"X-Large: " + b"x" * (100 << 10)
    many = [b"X-%d: %s" % (number, b"y" * 90) for number in range(1000)]
    respond(head(large, *many, b"Content-Length: 2") + b"hi")
    answer = connect().ask("/v1/messages", b"{}").answer()
    assert (answer.body, answer.end) == (b"hi", "whole")
    assert answer.values(b"x-large") == [b"x" * (100 << 10)]
    assert answer.values(b"x-999") == [b"y" * 90]
