"""A connection to the upstream carries one request: none goes out on one that may be dying."""

import time

import pytest

from .harness import TIMEOUT, eventually, head, read_request, whole

HELLO = whole(b"hi")
POISON = whole(b"poison")
# What the upstream answers, and says of its connection, which it does not close.
KEPT = {
    "HTTP/1.1": [HELLO],
    "keep-alive": [whole(b"hi", b"Connection: keep-alive", b"Keep-Alive: timeout=60")],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"],
    "HTTP/1.0, keep-alive": [
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"
    ],
    "Connection: Close": [whole(b"hi", b"Connection: Close")],
    "chunked": [head(b"Transfer-Encoding: chunked") + b"2\r\nhi\r\n0\r\n\r\n"],
    "a second response": [HELLO + POISON],
    "a second response, late": [HELLO, POISON],
    "a time-out, late": [HELLO, whole(b"late", status=b"408 Request Timeout")],
}


@pytest.mark.parametrize("name", KEPT)
def test_an_upstreams_connection_is_not_used_again(connect, upstream, name):
    """Each request has its own, each gets its own answer, and none is kept open."""
    again = []

    def script(peer, _):
        first, *later = KEPT[name]
        peer.send(first)
        for data in later:
            time.sleep(0.05)
            peer.send(data)
        peer.sock.settimeout(TIMEOUT)
        again.append(read_request(peer))  # EOFError: the proxy has closed it

    upstream.reset(script)
    client = connect()
    for method in (b"POST", b"GET", b"POST"):
        for each in (client, connect()):
            body = b"{}" if method == b"POST" else None
            answer = each.ask("/v1/messages", body, method=method).answer()
            assert (answer.status, answer.body, answer.end) == (200, b"hi", "whole")
            assert upstream.received().line.startswith(method)
    assert len(upstream.peers) == 6
    eventually(lambda: all(peer.sock.fileno() < 0 for peer in upstream.peers))
    assert again == []


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("method", [b"POST", b"GET"])
@pytest.mark.parametrize("taken", [0, 10, 1_000_000], ids=["nothing", "half a head", "half a body"])
def test_a_request_that_was_begun_is_never_sent_again(connect, upstream, taken, how, method):
    """However much of it was read: 502, and one connection. The SDKs ask again by themselves."""

    def hang_up(peer):
        peer.read_exactly(taken)
        peer.leave(how)

    upstream.reset(on_connection=hang_up)
    answer = connect().ask("/v1/messages", b"x" * 3_000_000, method=method).answer()
    assert (answer.status, answer.end) == (502, "whole")
    assert len(upstream.peers) == 1
    upstream.reset()
    assert connect().ask("/after").answer().status == 200
    assert upstream.received().line.startswith(b"POST /after")
    assert len(upstream.peers) == 1
