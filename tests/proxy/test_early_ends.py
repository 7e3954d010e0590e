"""An answer that ends with its connection: whole with its dialect's end, else broken off."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.http1.ending import CUT

from .harness import Client, head

OLD = b"HTTP/1.0 200 OK\r\n"
EVENTS, LINES, JSON = b"text/event-stream", b"application/x-ndjson", b"application/json"
TURN = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()


def event(value, kind=None):
    text = value if isinstance(value, str) else json.dumps(value)
    return (f"event: {kind}\n" if kind else "").encode() + f"data: {text}\n\n".encode()


def word(finish=None):
    return event({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": finish}]})


DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
PARTS = {
    "chat": ("/v1/chat/completions", EVENTS, word(), word("stop") + event("[DONE]")),
    "chat without [DONE]": ("/v1/chat/completions", EVENTS, word(), word("length")),
    "messages": (
        "/v1/messages",
        EVENTS,
        event(DELTA, "content_block_delta"),
        event({"type": "message_stop"}, "message_stop"),
    ),
    "responses": (
        "/v1/responses",
        EVENTS,
        event({"type": "response.output_text.delta", "delta": "a"}),
        event({"type": "response.completed", "response": {"status": "completed"}}),
    ),
    "ollama": (
        "/api/chat",
        LINES,
        b'{"message":{"content":"a"},"done":false}\n',
        b'{"message":{"content":""},"done":true}\n',
    ),
    "unstreamed": ("/v1/chat/completions", JSON, b'{"choices":[{"index":0,"mess', b'age":{}}]}'),
}
each = pytest.mark.parametrize("name", PARTS)


def ask(proxy, upstream, path, kind, body, *, version=b"HTTP/1.1", start=OLD):
    """What a client gets of an answer with ``body``, and what is logged of it."""

    def script(peer, _):
        peer.send(start + b"Content-Type: " + kind + b"\r\n\r\n" + body)

    upstream.reset(script)
    mark = proxy.mark()
    with Client(proxy.address) as client:
        answer = client.ask(path, TURN, version=version).answer()
    return answer, proxy.wait_for(" first", mark)


@each
def test_with_its_end_it_is_whole(proxy, upstream, name):
    path, kind, part, end = PARTS[name]
    answer, logged = ask(proxy, upstream, path, kind, part * (1 if kind == JSON else 3) + end)
    assert answer.end == "whole"
    assert answer.body.endswith(end)
    assert "FAILED" not in logged


@each
@pytest.mark.parametrize("start", [OLD, b"HTTP/1.1 200 OK\r\nConnection: close\r\n"])
def test_without_it_it_is_broken_off_and_logged(proxy, upstream, name, start):
    """All that had come is delivered; there is no end that would make it look whole."""
    path, kind, part, _ = PARTS[name]
    answer, logged = ask(proxy, upstream, path, kind, part, start=start)
    assert (answer.status, answer.end, answer.framed) == (200, "fin", True)
    assert answer.body == part
    assert f"UPSTREAM FAILED: {CUT}" in logged


def test_a_client_of_http_1_0_gets_a_reset(proxy, upstream):
    """It has no framing, either."""
    path, kind, part, end = PARTS["chat"]
    answer, _ = ask(proxy, upstream, path, kind, part, version=b"HTTP/1.0")
    assert answer.end == "rst"
    answer, _ = ask(proxy, upstream, path, kind, part + end, version=b"HTTP/1.0")
    assert (answer.end, answer.body) == ("fin", part + end)


def test_an_end_that_framing_gives_is_the_upstream_s_own(proxy, upstream):
    """A length, or the last chunk, says that this was all."""
    path, kind, part, _ = PARTS["chat"]
    fields = (b"Content-Type: " + kind, b"Content-Length: %d" % len(part))
    upstream.reset(lambda peer, _: peer.send(head(*fields) + part))
    with Client(proxy.address) as client:
        answer = client.ask(path, TURN).answer()
    assert (answer.end, answer.body) == ("whole", part)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/v1/chat/completions", b"text/plain"), ("/v1/audio", EVENTS), ("/v1/models", JSON)],
)
def test_what_is_not_known_passes_as_it_is(proxy, upstream, path, kind):
    upstream.reset(lambda peer, _: peer.send(OLD + b"Content-Type: " + kind + b"\r\n\r\nda"))
    with Client(proxy.address) as client:
        answer = client.ask(path, TURN).answer()
    assert (answer.end, answer.body) == ("whole", b"da")


def test_a_comment_is_no_first_token(proxy, upstream):
    """Signs of life go down as they come, and count for nothing."""

    def script(peer, _):
        peer.send(OLD + b"Content-Type: text/event-stream\r\n\r\n: keepalive 5/9\n\n")

    upstream.reset(script)
    mark = proxy.mark()
    with Client(proxy.address) as client:
        answer = client.ask("/v1/chat/completions", TURN).answer()
    assert answer.body == b": keepalive 5/9\n\n"
    logged = proxy.wait_for("UPSTREAM FAILED", mark)
    assert " first" not in logged
