"""Parts of an upstream's answer that have no end: each has a limit, and costs little until then."""

import json
import threading

import pytest

from .harness import CHUNKED, TIMEOUT, head

MIB = 1 << 20
LAST = CHUNKED + b"2\r\nhi\r\n0\r\n"
WITHOUT_END = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-Header: value\r\n" * 300, "too large"),
    "interim responses": (b"", head(status=b"102 Processing") * 200, "unexpected"),
    "a chunk extension": (CHUNKED + b"a;x=", b"y" * 5000, None),
    "trailers": (LAST, b"X-Trailer: value\r\n" * 300, None),
    "a trailer": (LAST + b"X: ", b"y" * 5000, None),
}


@pytest.mark.parametrize(("begin", "again", "why"), WITHOUT_END.values(), ids=WITHOUT_END)
def test_a_part_without_end_is_502_or_breaks_off_the_answer(
    connect, serve, proxy, *, begin, again, why
):
    """A head is given up after 256 KiB; what the kernels buffered besides is all that was sent.

    Endless framing never becomes a whole answer; it is 502, where it came together with the head.
    """
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
    before = proxy.memory()
    answer = connect().ask("/v1/messages", b"{}").answer()
    if answer.status == 200:
        assert why is None
        assert answer.end in ("fin", "rst")
        assert answer.body in (b"", b"hi")
    else:
        assert (answer.status, answer.end, answer.interim) == (502, "whole", [])
        assert (why or "") in json.loads(answer.body)["error"]["message"]
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
