"""The client leaves: the upstream connection closes at once, in every phase."""

import threading
import time

import pytest

from .harness import CHUNKED, TIMEOUT, eventually, head

EVENT = b"data: {}\n\n"
BODY = b'{"model":"m","messages":[]}'


PHASES = {
    "silent": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Type: text/ev",
    "an interim response": head(status=b"100 Continue"),
    "a head": CHUNKED,
    "some events": CHUNKED + 5 * (b"a\r\n" + EVENT + b"\r\n"),
    "half a chunk": CHUNKED + b"100\r\nhalf",
    "a long answer": head(b"Content-Length: 1000") + b"x" * 400,
    "until it closes": head() + b"x" * 400,
}


@pytest.fixture
def closed_after(serve):
    """Say what belongs to a phase; the semaphore counts the upstream's closed connections."""
    closed = threading.Semaphore(0)
    begun = threading.Event()

    def start(phase):
        def script(peer, _):
            peer.send(PHASES[phase])
            begun.set()
            if peer.wait_closed():
                closed.release()

        serve(script)
        return begun, closed

    return start


@pytest.mark.parametrize("how", ["fin", "rst", "half-closed"])
@pytest.mark.parametrize("phase", PHASES)
def test_the_upstream_closes_at_once(connect, closed_after, proxy, phase, how):
    """In every phase, however the client leaves; the log says so.

    FIN alone counts: agents do not half-close, and nobody else would read the answer.
    """
    begun, closed = closed_after(phase)
    mark = proxy.mark()
    client = connect().ask("/v1/messages", BODY)
    assert begun.wait(TIMEOUT)
    if how == "half-closed":
        client.finish()
    else:
        time.sleep(0.02)
        client.leave(how)
    assert closed.acquire(timeout=TIMEOUT)
    proxy.wait_for("CLIENT LEFT", mark)


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("size", [100, 100_000])
def test_pipelined_bytes_do_not_hide_that_the_client_left(connect, closed_after, size, how):
    """A second request may wait behind the first; it does not go upstream either."""
    begun, closed = closed_after("silent")
    client = connect().ask("/v1/messages", BODY)
    client.ask("/v1/second", b"x" * size)
    assert begun.wait(TIMEOUT)
    time.sleep(0.05)
    client.leave(how)
    assert closed.acquire(timeout=TIMEOUT)
    assert not closed.acquire(blocking=False)


@pytest.mark.parametrize("reads", [True, False])
def test_a_stream_that_flows_stops(connect, serve, reads):
    """An upstream that sends all the time is stopped, and so is one whose client does not read."""
    stopped, sent = threading.Event(), [0]

    def script(peer, _):
        peer.send(CHUNKED)
        try:
            while True:
                peer.chunk(b"x" * 100_000)
                sent[0] += 1
        except OSError:
            stopped.set()

    def stalled():
        seen = sent[0]
        time.sleep(0.2)
        return seen == sent[0] > 0

    serve(script)
    client = connect(buffer=1 << 14).ask("/v1/messages", BODY)
    if reads:
        pieces = client.pieces(client.begin())
        for _ in range(5):
            next(pieces)
    else:
        eventually(stalled)
    client.reset()
    assert stopped.wait(TIMEOUT)


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_request_that_breaks_off_goes_nowhere(connect, upstream, how):
    for start in (
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Le",
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
        b"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    ):
        client = connect()
        client.send(start)
        client.leave(how)
    assert connect().ask("/after").answer().status == 200
    assert upstream.received().line.startswith(b"POST /after")
    assert upstream.requests.empty()


def test_leaving_while_a_large_body_is_on_its_way_up(connect, upstream):
    """The upstream does not even read: its connection is reset."""
    started, ended = threading.Event(), threading.Event()

    def hold(peer):
        peer.read_until(b"\r\n\r\n")
        started.set()
        time.sleep(0.3)
        assert peer.wait_closed()
        ended.set()

    upstream.reset(on_connection=hold)
    client = connect().ask("/v1/messages", b"x" * 7_000_000)
    assert started.wait(TIMEOUT)
    client.reset()
    assert ended.wait(TIMEOUT)


def test_leaving_while_a_thread_looks_at_the_body(connect, upstream, proxy):
    """What the thread finds then is for nobody: no request goes on, or its connection closes."""
    closed = threading.Semaphore(0)

    def script(peer, _):
        assert peer.wait_closed()
        closed.release()

    upstream.reset(script)
    text = b'{"role":"user","content":"lorem ipsum"},' * 20_000
    body = b'{"system":"stamp=1","messages":[%s0]}' % text
    mark = proxy.mark()
    for _ in range(3):
        client = connect().ask("/v1/messages", body)
        client.close()  # the body is on its way still, and comes whole
    time.sleep(0.1)
    for _ in range(upstream.requests.qsize()):
        assert closed.acquire(timeout=TIMEOUT)
    proxy.wait_for("CLIENT LEFT", mark)
