"""What a chat server may say, and what a client of Anthropic's Messages API gets of it."""

from __future__ import annotations

from typing import Any

from .speaking import COUNTED, ODD, ODD_VALUE, UNCOUNTED, USAGE, WORDS, Case, Json, data

DONE = data("[DONE]")
_OVERFLOW = (
    "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 "
    "tokens. Please reduce the length of the messages."
)


def chunk(delta: Json | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish, "logprobs": None}
    return data({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                 "choices": [choice | more]})  # fmt: skip


def call(index: int | None, arguments: str, name: str = "", given: str = "") -> Json:
    """A delta of one tool call."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    said: Json = {"type": "function", "function": function} | ({"id": given} if given else {})
    return {"tool_calls": [said if index is None else said | {"index": index}]}


def completion(message: Json, finish: str, usage: Json | None = USAGE, **more: Any) -> Json:
    message = {"role": "assistant", "content": None} | message
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [choice | more], "usage": usage}  # fmt: skip


def said(*content: tuple[Any, ...], reason: str = "end_turn", sequence: str | None = None) -> Json:
    return {"content": list(content), "reason": reason, "sequence": sequence, **COUNTED}


COUNT = data({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
              "choices": [], "usage": USAGE})  # fmt: skip
HELLO = chunk({"role": "assistant", "content": "Hello"})
END = (chunk({}, "stop"), COUNT, DONE)


def spoken(
    expected: Json,
    *deltas: Json,
    finish: str = "stop",
    last: tuple[bytes, ...] = (COUNT, DONE),
    **more: Any,
) -> Case:
    """A case of texts alone, whole and as a stream; ``more``: what the choice has besides."""
    message: Json = {}
    deltas = ({"role": "assistant"} | deltas[0], *deltas[1:])
    for delta in deltas:
        for name, text in delta.items():
            message[name] = message.get(name, "") + text
    usage = USAGE if COUNT in last else None
    events = (*map(chunk, deltas), chunk({}, finish, **more), *last)
    return Case(completion(message, finish, usage, **more), events, expected)


def _calls(*calls: tuple[str, str, str]) -> Json:
    return {
        "tool_calls": [
            {"id": given, "type": "function", "function": {"name": name, "arguments": arguments}}
            for given, name, arguments in calls
        ]
    }


TURNS = Case(
    events=(
        chunk({"reasoning_content": "One or two?"}),
        chunk({"role": "assistant", "content": "I look."}),
        chunk(call(0, ODD[:9], "one", "call_c")),
        chunk(call(1, "{}", "two", "call_d")),
        chunk(call(0, ODD[9:])),
        chunk({}, "tool_calls"),
        COUNT,
        DONE,
    )
)
"""What a conversation goes on from. Its calls are of no other case."""
CASES = {
    "text": spoken(said(("text", "Hello, world")), {"content": "Hello"}, {"content": ", world"}),
    "parallel": Case(
        completion(
            {"content": "I look."} | _calls(("call_a", "one", ODD), ("call_b", "two", "{}")),
            "tool_calls",
        ),
        (
            chunk({"role": "assistant", "content": "I look."}),
            chunk(call(0, "", "one", "call_a")),
            chunk(call(0, ODD[:9])),
            chunk(call(1, "{", "two", "call_b")),
            chunk(call(0, ODD[9:30])),
            chunk(call(1, "}")),
            chunk(call(0, ODD[30:])),
            chunk({}, "tool_calls"),
            COUNT,
            DONE,
        ),
        said(
            ("text", "I look."),
            ("tool_use", "one", ODD_VALUE),
            ("tool_use", "two", {}),
            reason="tool_use",
        ),
    ),
    "calls-uncounted": Case(  # whole calls, all of them with the index 0, and "stop" at the end
        completion(_calls(("a", "one", '{"a":1}'), ("b", "two", '{"b":2}')), "stop"),
        (chunk(call(0, '{"a":1}', "one", "a")), chunk(call(0, '{"b":2}', "two", "b")), *END),
        said(("tool_use", "one", {"a": 1}), ("tool_use", "two", {"b": 2}), reason="tool_use"),
    ),
    "call-without-id": Case(
        completion(
            {"tool_calls": [{"function": {"name": "one", "arguments": '{"a":1}'}}]}, "tool_calls"
        ),
        (chunk(call(None, '{"a"', "one")), chunk(call(None, ":1}")), *END),
        said(("tool_use", "one", {"a": 1}), reason="tool_use"),
    ),
    "refusal": spoken(
        said(("text", "I will not."), reason="refusal"), {"refusal": "I will"}, {"refusal": " not."}
    ),
    "filtered": spoken(
        said(("text", "Well"), reason="refusal"), {"content": "Well"}, finish="content_filter"
    ),
    "cut": spoken(
        said(("text", "Well"), reason="max_tokens"), {"content": "Well"}, finish="length"
    ),
    "call-cut": Case(
        completion(_calls(("a", "one", '{"a":1}')), "length"),
        (chunk(call(0, '{"a":1}', "one", "a")), chunk({}, "length"), COUNT, DONE),
        said(("tool_use", "one", {"a": 1}), reason="max_tokens"),
    ),
    "odd-reason": spoken(said(("text", "Hello")), {"content": "Hello"}, finish="eos_token"),
    "stop-sequence": spoken(  # as vLLM tells it; the tests ask with this stop sequence
        said(("text", "Hello"), reason="stop_sequence", sequence="##"),
        {"content": "Hello"},
        stop_reason="##",
    ),
    "no-usage": spoken(said(("text", "Hello")) | UNCOUNTED, {"content": "Hello"}, last=(DONE,)),
    "no-done": spoken(said(("text", "Hello")), {"content": "Hello"}, last=(COUNT,)),
    "nothing": spoken(said(), {"content": ""}),
    "reasoning": spoken(
        said(("thinking", "Hm, so."), ("text", "Hello")),
        *({"reasoning_content": "Hm,"}, {"reasoning_content": " so."}, {"content": "Hello"}),
    ),
    "unicode": Case(
        completion({"reasoning": WORDS, "content": WORDS}, "stop"),
        (
            chunk({"reasoning": WORDS}),
            b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % WORDS.encode(),
            b": a comment\n\n",
            *END,
        ),
        said(("thinking", WORDS), ("text", WORDS)),
        piece=1,
    ),
}
BROKEN = {
    "dies": Case(events=(HELLO,), end="rst"),
    "hangs-up": Case(events=(HELLO,), end="fin"),
    "ends": Case(events=(HELLO,)),
    "done-too-early": Case(events=(HELLO, DONE)),
    "dies-in-a-call": Case(events=(chunk(call(0, '{"a":', "one", "a")),), end="rst"),
    "gives-up": Case(
        completion({"content": "Hello"}, "abort"), (HELLO, chunk({}, "abort"), COUNT, DONE)
    ),
    "garbage": Case({"choices": []}, (HELLO, data("{nonsense"), *END)),
    "nameless-call": Case(
        completion({"tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]}, "tool_calls"),
        (HELLO, chunk(call(0, "{}", given="a")), *END),
    ),
    "error-inside": Case(
        {"error": {"message": "the GPU is gone", "code": 500}},
        (HELLO, data({"error": {"message": "the GPU is gone", "code": 500}})),
        raises="the GPU is gone",
    ),
    "error-at-once": Case(
        {"object": "error", "message": "the GPU is gone", "code": 500},
        (data({"error": {"message": "the GPU is gone", "code": 500}}),),
        raises="the GPU is gone",
    ),
}
"""Streams that are no whole answer. With ``answer``: what is no whole answer at once either."""
ERRORS = {
    "busy": Case(
        {"error": {"message": "slow down", "type": "rate_limit_error", "code": None}},
        status=b"429 Too Many Requests",
        fields=(b"Retry-After: 7",),
        expected={
            "status": 429, "after": "7", "type": "rate_limit_error", "said": "slow down",
        },
    ),
    "overflow": Case(
        {"error": {"message": _OVERFLOW, "code": "context_length_exceeded"}},
        status=b"400 Bad Request",
        expected={
            "status": 400, "after": None, "type": "invalid_request_error",
            "said": "prompt is too long: 5000 tokens > 4096 maximum",
        },
    ),
    "forbidden": Case(
        {"error": {"message": "who are you?", "type": "invalid_request_error"}},
        status=b"401 Unauthorized",
        expected={
            "status": 401, "after": None, "type": "authentication_error", "said": "who are you?",
        },
    ),
    "loading": Case(
        {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}},
        status=b"503 Service Unavailable",
        expected={"status": 503, "after": None, "type": "api_error", "said": "Loading model"},
    ),
}  # fmt: skip
