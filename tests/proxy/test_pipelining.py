"""Requests sent before the answer to the one before has come (RFC 9112, section 9.3.2)."""

from __future__ import annotations

import threading
import time

from .harness import CHUNKED, TIMEOUT, whole


def test_answers_come_in_the_order_of_the_requests(connect, upstream):
    """Though the first takes longest; and one goes upstream at a time."""
    running, most = [0], [0]

    def script(peer, received):
        running[0] += 1
        most[0] = max(most[0], running[0])
        if b"/slow" in received.line:
            time.sleep(0.2)
        running[0] -= 1
        peer.send(whole(received.line))

    upstream.reset(script)
    client = connect()
    paths = ["/slow", "/quick", "/slow?2", "/quick?2"]
    for path in paths:
        client.ask(path, b"{}")
    for path in paths:
        assert client.answer().body == f"POST {path} HTTP/1.1".encode()
    assert most == [1]


def test_what_waits_behind_an_answer_that_breaks_off_goes_nowhere(connect, upstream):
    """The connection closes: whoever sent it does not know how far it came."""

    def script(peer, received):
        peer.send(CHUNKED)
        peer.chunk(received.line)
        time.sleep(0.1)

    upstream.reset(script)
    client = connect().ask("/first", b"{}").ask("/second", b"{}")
    answer = client.answer()
    assert (answer.end, answer.body) == ("fin", b"POST /first HTTP/1.1")
    assert upstream.received().line == b"POST /first HTTP/1.1"
    assert upstream.requests.empty()


def test_what_waits_behind_an_answer_whose_client_leaves_goes_nowhere(connect, upstream):
    """Nobody would read it."""
    closed = threading.Event()

    def script(peer, _):
        if peer.wait_closed():
            closed.set()

    upstream.reset(script)
    client = connect().ask("/first", b"{}").ask("/second", b"{}")
    assert upstream.received().line == b"POST /first HTTP/1.1"
    client.close()
    assert closed.wait(TIMEOUT)
    assert connect().ask("/after", b"{}", b"Connection: close")
    assert upstream.received().line == b"POST /after HTTP/1.1"


def test_many_at_once_are_all_answered(connect, upstream):
    """Each with its own."""
    upstream.reset(lambda peer, received: peer.send(whole(received.body)))
    client = connect()
    for number in range(100):
        client.ask("/x", b"%d" % number)
    assert [client.answer().body for _ in range(100)] == [b"%d" % n for n in range(100)]
