"""Interim responses (RFC 9110, section 15.2) end at the proxy, which has its own: to go on."""

import json

import pytest

from .harness import TIMEOUT, Says, head, whole

CONTINUE = head(status=b"100 Continue")
EXPECT = b"Expect: 100-continue"


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
    client = connect()
    lines = (b"POST /v1/messages HTTP/1.1", EXPECT, *fields, b"Content-Length: 10", b"", b"")
    client.send(b"\r\n".join(lines))
    answer = client.answer()
    assert (answer.status, answer.end, answer.interim) == (status, "whole", [])
    assert upstream.requests.empty()


@pytest.mark.parametrize("framing", [b"Content-Length: 2", b"Transfer-Encoding: chunked"])
def test_a_client_is_told_to_continue_once(connect, serve, upstream, framing):
    """By us, before we ask the upstream, whose own 100 it does not see."""
    serve(lambda peer, _: peer.send(CONTINUE + whole(b"hi")))
    client = connect().ask("/x", None, framing, EXPECT)
    assert client.read_until(b"\r\n\r\n") == CONTINUE
    assert upstream.requests.empty()
    client.send(b"{}" if b"Length" in framing else b"2\r\n{}\r\n0\r\n\r\n")
    answer = client.answer()
    assert (answer.body, answer.interim) == (b"hi", [])
    received = upstream.received()
    assert (received.body, received.values(b"expect")) == (b"{}", [])


WEBSOCKET = (b"Connection: keep-alive, Upgrade", b"Upgrade: WebSocket", b"Sec-WebSocket-Key: x")


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/messages", "api_error"), ("/v1/responses", "server_error")]
)
def test_a_websocket_is_refused_in_the_dialect(connect, upstream, path, kind):
    """As a plain GET it would have some other answer. The connection goes on."""
    client = connect()
    answer = client.ask(path, None, *WEBSOCKET, method=b"GET").answer()
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["type"]) == (501, kind)
    assert "WebSockets are not relayed" in error["message"]
    assert upstream.requests.empty()
    assert client.ask("/x").answer().status == 200


def test_the_protocol_is_never_switched(connect, serve, upstream):
    """The upstream does not see the wish; one that switches all the same is closed: 502."""
    switch = head(b"Upgrade: h2c", b"Connection: Upgrade", status=b"101 Switching")
    serve(script := Says(switch + b"other", waits=True))
    upgrade = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAM")
    answer = connect().ask("/v1/messages", None, *upgrade, method=b"GET").answer()
    assert (answer.status, answer.end, answer.interim) == (502, "whole", [])
    assert b"other" not in answer.body
    assert script.closed.wait(TIMEOUT)
    received = upstream.received()
    assert received.values(b"connection") == [b"close"]
    assert not received.values(b"upgrade")
