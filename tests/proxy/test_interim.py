"""Interim responses (RFC 9110, section 15.2) end at the proxy: a few, but no flood, no upgrade."""

from __future__ import annotations

import json
import threading

import pytest

from .harness import TIMEOUT, head, whole

HINT = head(b"Link: </x>; rel=preload", b"X-Hint: 1", status=b"103 Early Hints")


def test_a_few_are_dropped_with_their_headers(connect, respond):
    """As many as an upstream may well send while it works."""
    respond(
        HINT + head(status=b"100 Continue") + 30 * head(status=b"102 Processing") + whole(b"hi")
    )
    answer = connect().ask("/v1/messages", b"{}").answer()
    assert (answer.status, answer.body, answer.interim) == (200, b"hi", [])
    assert not answer.values(b"link") + answer.values(b"x-hint")


@pytest.mark.parametrize("one", [HINT, head(status=b"102 Processing"), b"HTTP/1.1 100\r\n\r\n"])
def test_a_flood_is_502(connect, serve, proxy, one):
    """Soon, and the upstream is closed: it could go on for ever."""
    sent, closed = [0], threading.Event()

    def script(peer, _):
        try:
            while sent[0] < 64 << 20:
                peer.send(one * 200)
                sent[0] += 200 * len(one)
        except OSError:
            closed.set()

    serve(script)
    before = proxy.memory()
    client = connect()
    answer = client.ask("/v1/messages", b"{}").answer()
    assert (answer.status, answer.end, answer.interim) == (502, "whole", [])
    assert "unexpected" in json.loads(answer.body)["error"]["message"]
    assert closed.wait(TIMEOUT)
    assert proxy.memory() - before < 8 << 20
    serve(lambda peer, _: peer.send(whole(b"next")))
    assert client.ask().answer().body == b"next"


WEBSOCKET = (b"Connection: keep-alive, Upgrade", b"Upgrade: WebSocket", b"Sec-WebSocket-Key: x")


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/messages", "api_error"), ("/v1/responses", "server_error")]
)
def test_a_websocket_is_refused_in_the_dialect(connect, upstream, path, kind):
    """As a plain GET it would have some other answer. The connection goes on."""
    client = connect()
    answer = client.ask(path, None, *WEBSOCKET, method=b"GET").answer()
    assert (answer.status, json.loads(answer.body)["error"]["type"]) == (501, kind)
    assert "WebSockets are not relayed" in json.loads(answer.body)["error"]["message"]
    assert upstream.requests.empty()
    assert client.ask("/x").answer().status == 200


UPGRADE = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAM")


@pytest.mark.parametrize("fields", [(), UPGRADE], ids=["unasked", "asked"])
def test_the_protocol_is_never_switched(connect, serve, upstream, fields):
    """The upstream does not see the wish; one that switches all the same is closed: 502."""
    closed = threading.Event()

    def script(peer, _):
        switch = head(b"Upgrade: websocket", b"Connection: Upgrade", status=b"101 Switching")
        peer.send(switch + b"bytes of another protocol")
        if peer.wait_closed():
            closed.set()

    serve(script)
    answer = connect().ask("/v1/messages", None, *fields, method=b"GET").answer()
    assert (answer.status, answer.end, answer.interim) == (502, "whole", [])
    assert b"another protocol" not in answer.body
    assert closed.wait(TIMEOUT)
    received = upstream.received()
    assert received.values(b"connection") == [b"close"]
    assert not received.values(b"upgrade")


def test_a_client_is_told_to_continue_once(connect, serve, upstream):
    """By us, before we ask the upstream, whose own 100 it does not see."""
    serve(lambda peer, _: peer.send(head(status=b"100 Continue") + whole(b"hi")))
    client = connect().ask("/x", None, b"Content-Length: 2", b"Expect: 100-continue")
    assert client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert upstream.requests.empty()
    client.send(b"{}")
    answer = client.answer()
    assert (answer.body, answer.interim) == (b"hi", [])
    assert not upstream.received().values(b"expect")
