"""What a Messages server may say, and what a client of OpenAI's Chat Completions gets of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .speaking import COUNTED, ODD, WORDS, Case, Json, data

_PROMPT = {"input_tokens": 40, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 60}
_TOO_LONG = "prompt is too long: 5000 tokens > 4096 maximum"


def event(kind: str, **more: Any) -> bytes:
    return data({"type": kind, **more}, kind)


def message(content: Sequence[Json], reason: str | None, usage: Json | None = None) -> Json:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": list(content), "stop_reason": reason, "stop_sequence": None,
        "usage": _PROMPT | {"output_tokens": 7} if usage is None else usage,
    }  # fmt: skip


START = event("message_start", message=message([], None, _PROMPT | {"output_tokens": 1}))


def block(index: int, content_block: Json, *deltas: Json) -> tuple[bytes, ...]:
    """The events of one content block."""
    return (
        event("content_block_start", index=index, content_block=content_block),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    )


def text(index: int, *pieces: str) -> tuple[bytes, ...]:
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return block(index, {"type": "text", "text": ""}, *deltas)


def tool(index: int, name: str, *pieces: str) -> tuple[bytes, ...]:
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return block(index, {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {}},
                 *deltas)  # fmt: skip


def end(reason: str, usage: Json | None = None) -> tuple[bytes, ...]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    counted = {"output_tokens": 7} if usage is None else usage
    return event("message_delta", delta=delta, usage=counted), event("message_stop")


def said(
    content: str | None = None,
    reason: str = "stop",
    thinking: str | None = None,
    calls: Sequence[tuple[str, str]] = (),
) -> Json:
    calls = list(calls)
    return {"text": content, "thinking": thinking, "calls": calls, "reason": reason, **COUNTED}


def _text(words: str) -> Json:
    return {"type": "text", "text": words}


def _tool(name: str, given: Any) -> Json:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": given}


HELLO = text(0, "Hello")
_SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}

TURNS = Case(
    events=(
        START,
        *text(0, "I look."),
        *tool(1, "one", ODD[:9], ODD[9:]),
        *tool(2, "two"),
        *end("tool_use"),
    )
)
"""What a conversation goes on from."""
CASES = {
    "text": Case(
        message([_text("Hello, world")], "end_turn"),
        (START, event("ping"), *text(0, "Hello", ", world"), *end("end_turn")),
        said("Hello, world"),
    ),
    "parallel": Case(
        message([_text("I look."), _tool("one", json.loads(ODD)), _tool("two", {})], "tool_use"),
        (
            START,
            *text(0, "I look."),
            *tool(1, "one", "", ODD[:9], ODD[9:30], ODD[30:]),
            *tool(2, "two"),
            *end("tool_use"),
        ),
        said("I look.", "tool_calls", calls=[("one", ODD), ("two", "{}")]),
    ),
    "interleaved": Case(  # blocks side by side, as no server should send them
        None,
        (
            START,
            event("content_block_start", index=0, content_block=_tool("one", {})),
            event("content_block_start", index=1, content_block=_tool("two", {})),
            event("content_block_delta", index=1,
                  delta={"type": "input_json_delta", "partial_json": '{"b":'}),
            event("content_block_delta", index=0,
                  delta={"type": "input_json_delta", "partial_json": '{"a":1}'}),
            event("content_block_delta", index=1,
                  delta={"type": "input_json_delta", "partial_json": "2}"}),
            event("content_block_stop", index=0),
            event("content_block_stop", index=1),
            *end("tool_use"),
        ),
        said(None, "tool_calls", calls=[("one", '{"a":1}'), ("two", '{"b":2}')]),
    ),
    "refusal": Case(
        message([_text("Well")], "refusal"),
        (START, *text(0, "Well"), *end("refusal")),
        said("Well", "content_filter"),
    ),
    "odd-reason": Case(
        message([_text("Hello")], "sleepy"), (START, *HELLO, *end("sleepy")), said("Hello")
    ),
    "paused": Case(
        message([_SEARCH, _text("Hello")], "pause_turn"),
        (START, *block(0, _SEARCH), *text(1, "Hello"), *end("pause_turn")),
        said("Hello"),
    ),
    "no-usage": Case(
        message([_text("Hello")], "end_turn", {}),
        (
            event("message_start", message=message([], None, {})),
            *HELLO,
            *end("end_turn", {}),
        ),
        said("Hello") | {"prompt": None, "output": None},
    ),
    "nothing": Case(message([], "end_turn"), (START, *end("end_turn")), said()),
    "thinking": Case(
        message(
            [{"type": "thinking", "thinking": "Hm, so.", "signature": "xyz"}, _text("Hello")],
            "end_turn",
        ),
        (
            START,
            *block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Hm,"},
                {"type": "thinking_delta", "thinking": " so."},
                {"type": "signature_delta", "signature": "xyz"},
            ),
            *text(1, "Hello"),
            *end("end_turn"),
        ),
        said("Hello", thinking="Hm, so."),
    ),
    "unicode": Case(
        message([_text(WORDS)], "end_turn"),
        (
            START,
            event("content_block_start", index=0, content_block=_text("")),
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":'
            b'"%s"}}\n\n' % WORDS.encode(),
            event("content_block_stop", index=0),
            *end("end_turn"),
        ),
        said(WORDS),
        piece=1,
    ),
    "cut": Case(
        message([_text("Well")], "max_tokens"),
        (START, *text(0, "Well"), *end("max_tokens")),
        said("Well", "length"),
    ),
    "full": Case(
        message([_text("Well")], "model_context_window_exceeded"),
        (START, *text(0, "Well"), *end("model_context_window_exceeded")),
        said("Well", "length"),
    ),
}  # fmt: skip
_LOST = {"type": "overloaded_error", "message": "the GPU is gone"}
BROKEN = {
    "dies": Case(events=(START, *HELLO[:2]), end="rst"),
    "hangs-up": Case(events=(START, *HELLO[:2]), end="fin"),
    "ends": Case(events=(START, *HELLO)),
    "ends-with-a-reason": Case(events=(START, *HELLO, end("end_turn")[0])),
    "dies-in-a-call": Case(events=(START, *tool(0, "one", '{"a":')[:2]), end="rst"),
    "garbage": Case({"content": 7}, (START, *HELLO[:2], data("{nonsense"), *end("end_turn"))),
    "nameless-call": Case(
        message([_tool("", {})], "tool_use"), (START, *HELLO, *tool(1, ""), *end("tool_use"))
    ),
    "error-inside": Case(
        {"type": "error", "error": _LOST},
        (START, *HELLO[:2], event("error", error=_LOST)),
        raises="the GPU is gone",
    ),
    "error-at-once": Case(
        {"type": "error", "error": _LOST},
        (event("error", error=_LOST),),
        raises="the GPU is gone",
    ),
}
"""Streams that are no whole answer. With ``answer``: what is no whole answer at once either."""


def _error(kind: str, words: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": words}}


ERRORS = {
    "busy": Case(
        _error("rate_limit_error", "slow down"),
        status=b"429 Too Many Requests",
        fields=(b"Retry-After: 7",),
        expected={"status": 429, "after": "7", "type": "rate_limit_error", "said": "slow down"},
    ),
    "overloaded": Case(
        _error("overloaded_error", "Overloaded"),
        status=b"529 Overloaded",
        expected={"status": 503, "after": None, "type": "server_error", "said": "Overloaded"},
    ),
    "overflow": Case(
        _error("invalid_request_error", _TOO_LONG),
        status=b"400 Bad Request",
        expected={
            "status": 400, "after": None, "type": "invalid_request_error",
            "said": "maximum context length is 4096 tokens",
        },
    ),
    "forbidden": Case(
        _error("authentication_error", "who are you?"),
        status=b"401 Unauthorized",
        expected={
            "status": 401, "after": None, "type": "invalid_request_error", "said": "who are you?",
        },
    ),
}  # fmt: skip
