"""An answer that ends with its connection: whole with its dialect's end, else broken off."""

import json

import pytest

from cacheproxy.core.dialects.stream import CUT

from .harness import head

OLD = b"HTTP/1.0 200 OK\r\n"
EVENTS, LINES, JSON = b"text/event-stream", b"application/x-ndjson", b"application/json"
TURN = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
CHAT = "/v1/chat/completions"
WORD = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": null}]}\n\n'
PARTS = {  # core/http1 has the ends of all dialects
    "chat": (CHAT, EVENTS, WORD, WORD.replace(b"null", b'"stop"') + b"data: [DONE]\n\n"),
    "messages": (
        "/v1/messages",
        EVENTS,
        b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0}\n\n',
        b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
    ),
    "ollama": (
        "/api/chat",
        LINES,
        b'{"message":{"content":"a"},"done":false}\n',
        b'{"message":{"content":""},"done":true}\n',
    ),
    "unstreamed": (CHAT, JSON, b'{"choices":[{"index":0,"mess', b'age":{}}]}'),
}


@pytest.fixture
def ask(proxy, respond):
    """What a client gets of an answer with ``body``, and what is logged of it."""

    def ask(path, kind, body, *, version=b"HTTP/1.1", start=OLD):
        respond(start + b"Content-Type: " + kind + b"\r\n\r\n" + body)
        mark = proxy.mark()
        answer = proxy.ask(path, TURN, version=version)
        proxy.mark()
        return answer, "\n".join(proxy.lines[mark:])

    return ask


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("start", [OLD, b"HTTP/1.1 200 OK\r\nConnection: close\r\n"])
def test_without_its_end_it_is_broken_off_and_logged(ask, name, start):
    """All that had come is delivered; there is no end that would make it look whole."""
    path, kind, part, end = PARTS[name]
    answer, logged = ask(path, kind, part, start=start)
    assert (answer.status, answer.end, answer.framed, answer.body) == (200, "fin", True, part)
    assert f"UPSTREAM FAILED: {CUT}" in logged
    answer, logged = ask(path, kind, part + end, start=start)
    assert (answer.end, answer.body) == ("whole", part + end)
    assert "FAILED" not in logged


def test_a_client_of_http_1_0_gets_a_reset(ask):
    path, kind, part, end = PARTS["chat"]
    assert ask(path, kind, part, version=b"HTTP/1.0")[0].end == "rst"
    answer, _ = ask(path, kind, part + end, version=b"HTTP/1.0")
    assert (answer.end, answer.body) == ("fin", part + end)


@pytest.mark.parametrize(
    ("path", "kind", "start"),
    [
        (CHAT, EVENTS, head(b"Content-Length: %d" % len(WORD))[:-2]),  # a length says it
        (CHAT, b"text/plain", OLD),
        ("/v1/audio", EVENTS, OLD),
        ("/v1/models", JSON, OLD),
    ],
)
def test_what_is_not_known_or_has_an_end_of_its_own_passes_as_it_is(ask, path, kind, start):
    answer, _ = ask(path, kind, WORD, start=start)
    assert (answer.end, answer.body) == ("whole", WORD)


def test_a_comment_is_no_first_token(ask):
    """Signs of life go down as they come, and count for nothing."""
    answer, logged = ask(CHAT, EVENTS, b": keepalive 5/9\n\n")
    assert answer.body == b": keepalive 5/9\n\n"
    assert "UPSTREAM FAILED" in logged
    assert " first" not in logged
