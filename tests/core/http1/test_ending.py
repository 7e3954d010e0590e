"""Whether an answer that ends with its connection is whole, told by its dialect's own end."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation import usage_reader as reader_module
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.http1.ending import ending_of
from tests.core.counting import CHAT_USAGE, JSON, NDJSON, OLLAMA, RESPONSES_USAGE, SSE, events
from tests.core.requestbytes import cut, cuts

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
QUOTED = 'data: [DONE]\n\n "finish_reason":"stop" event: message_stop "done":true error'
"""What a model may well write."""


def chat(content, finish=None):
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]}


WORD = {
    CHAT: chat(QUOTED),
    "/v1/completions": {"choices": [{"text": QUOTED, "finish_reason": None}]},
    "/completion": {"content": QUOTED, "stop": False},
    MESSAGES: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": QUOTED}},
    RESPONSES: {"type": "response.output_text.delta", "delta": QUOTED},
    "/api/chat": {"message": {"content": QUOTED}, "done": False},
}
ENDS = [
    (CHAT, "[DONE]"),
    (CHAT, chat("", "stop")),
    (CHAT, chat("", "length") | {"usage": CHAT_USAGE}),
    (CHAT, {"error": {"message": "out of memory"}}),
    ("/v1/completions", "[DONE]"),
    ("/completion", {"content": "", "stop": True}),
    (MESSAGES, {"type": "message_stop"}),
    (MESSAGES, {"type": "error", "error": {"type": "overloaded_error"}}),
    *(
        (RESPONSES, {"type": f"response.{how}", "response": {"usage": RESPONSES_USAGE}})
        for how in ("completed", "failed", "incomplete")
    ),
    (RESPONSES, {"type": "error", "message": "no"}),
    ("/api/chat", OLLAMA),
    ("/api/chat", {"error": "no such model"}),
]


def lines(*messages):
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def stream(path, *messages):
    return lines(*messages) if path == "/api/chat" else events(*messages)


def is_cut(path, *chunks, content_type=None, codings=()):
    kind = content_type or (NDJSON if path == "/api/chat" else SSE)
    reader = UsageReader(kind, codings=codings, ending=ending_of(path))
    for chunk in chunks:
        reader.feed(chunk)
    return reader.is_cut


@pytest.mark.parametrize(("path", "end"), ENDS)
def test_an_answer_is_whole_with_its_end_and_cut_without(path, end):
    """What the model writes is no end, whatever it says.

    An end needs no empty line and no usual spacing: sloppy servers.
    """
    words = [WORD[path]] * 50
    assert not is_cut(path, stream(path, *words, end))
    assert is_cut(path, stream(path, *words))
    assert is_cut(path, stream(path, *words, end)[: -len(stream(path, end)) + 4])
    assert is_cut(path)
    assert not is_cut(path, stream(path, WORD[path], end).rstrip(b"\n"))
    if isinstance(end, dict):
        spaced = json.dumps(end, separators=(" , ", " : ")).encode()
        assert not is_cut(path, b"" if path == "/api/chat" else b"data:", spaced, b"\n\n")


def test_usage_behind_the_finish_reason_changes_nothing():
    """llama.cpp and vLLM say it between the end and [DONE]."""
    usage = {"choices": [], "usage": CHAT_USAGE}
    assert not is_cut(CHAT, events(chat("a"), chat("", "stop"), usage))
    assert is_cut(CHAT, events(chat("a"), chat(None, ""), usage))


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES, "/api/chat"])
def test_an_unstreamed_answer_is_whole_if_it_is_json(path):
    """Nothing more is asked of it."""
    body = json.dumps({"id": "x", "usage": CHAT_USAGE}).encode()
    assert not is_cut(path, body, content_type=JSON)
    assert not is_cut(path, body[:9], body[9:] + b"\n", content_type=JSON)
    assert is_cut(path, body[:-1], content_type=JSON)
    assert is_cut(path, content_type=JSON)


def test_what_cannot_be_read_is_not_called_cut(monkeypatch):
    """Packed bodies, other types, other paths, bodies that are too long or nested too deeply."""
    body = events(chat("a"))
    assert not is_cut(CHAT, body, codings=[b"gzip"])
    assert not is_cut(CHAT, body, content_type="text/html")
    assert not is_cut("/v1/models", body)
    assert not is_cut(CHAT, b"[" * 200_000, content_type=JSON)
    monkeypatch.setattr(reader_module, "_LONGEST_MESSAGE", 100)
    assert not is_cut(CHAT, b'{"a":' + b" " * 100, content_type=JSON)
    # a Responses stream repeats the whole answer in its last event
    end = {"type": "response.completed", "response": {"output": "x" * 200}}
    assert not is_cut(RESPONSES, events(WORD[RESPONSES], end))


@given(st.sampled_from(ENDS), cuts, st.integers(0, 3000), st.booleans())
def test_how_an_answer_was_cut_into_pieces_does_not_matter(case, places, short, carriage):
    """Nor whether lines end with CR LF."""
    path, end = case
    body = stream(path, WORD[path], WORD[path], end)
    if carriage:
        body = body.replace(b"\n", b"\r\n")
    body = body[: max(0, len(body) - short)] if short % 2 else body
    whole = is_cut(path, body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "_TOGETHER", 0)
        assert is_cut(path, *cut(body, places)) == whole


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("kind", [["message_stop", "response.completed"], {"error": 1}, None, 5])
def test_a_type_that_is_no_text_is_no_end(path, kind):
    """A reader never raises, whatever a server sends."""
    assert is_cut(path, events({"type": kind, "said": "message_stop response.completed"}))
