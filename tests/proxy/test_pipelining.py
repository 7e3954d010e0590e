"""Requests sent before the answer to the one before has come (RFC 9112, section 9.3.2)."""

from __future__ import annotations

import time

from .harness import whole


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
