"""A scripted answer in the dialect that is asked for, with a usage, streamed or whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from same.replies import Json, Said

OUTPUT = 7
"""Tokens that every answer has."""
SECONDS_READ, SECONDS_WRITTEN = 1 / 2048, 1 / 128
"""For a token of the prompt, for one of the answer; sums of them are exact."""


@dataclass(frozen=True)
class Usage:
    """Tokens of the prompt, and how many of them were in the cache."""

    prompt: int
    reused: int


def answer(path: str, body: Json, said: Said, usage: Usage, *, timings: bool) -> tuple[str, bytes]:
    """Return content type and body; ``timings``: with llama-server's own figures."""
    if path.endswith("/count_tokens"):
        return _whole({"input_tokens": usage.prompt})
    if path.endswith("/messages"):
        events = list(_anthropic(said, usage))
        return _streamed(events) if body.get("stream") else _whole(_message(said, usage))
    if path.endswith("/responses"):
        events = list(_responses(said, usage))
        return _streamed(events) if body.get("stream") else _whole(events[-1]["response"])
    if ":" in path:
        return _streamed([_gemini(said, usage)], named=False)
    if not body.get("stream"):
        return _whole(_completion(said, usage) | (_timings(usage) if timings else {}))
    chunks = list(_chunks(said))
    if timings:
        chunks[-1] |= _timings(usage)
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append(_chunk() | {"choices": [], "usage": _chat_usage(usage)})
    kind, text = _streamed(chunks, named=False)
    return kind, text + b"data: [DONE]\n\n"


def _whole(value: Json) -> tuple[str, bytes]:
    return "application/json", json.dumps(value).encode()


def _streamed(events: list[Json], *, named: bool = True) -> tuple[str, bytes]:
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n"
        for event in events
    ]
    return "text/event-stream", "".join(lines).encode()


def _anthropic(said: Said, usage: Usage) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**_message([], usage), "stop_reason": None}}
    for index, part in enumerate(said):
        at = {"index": index}
        block = _block(part)
        key = {"text": "text", "thinking": "thinking", "tool": "input"}[part[0]]
        empty = {**block, key: {} if key == "input" else ""}
        yield {"type": "content_block_start", **at, "content_block": empty}
        text = part[-1]
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            kind = {"input": "input_json"}.get(key, key)
            member = {"input": "partial_json"}.get(key, key)
            delta = {"type": f"{kind}_delta", member: piece}
            yield {"type": "content_block_delta", **at, "delta": delta}
        yield {"type": "content_block_stop", **at}
    stop = {"stop_reason": _message(said, usage)["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": OUTPUT}}
    yield {"type": "message_stop"}


def _block(part: tuple[str, ...]) -> Json:
    if part[0] == "tool":
        return {"type": "tool_use", "id": part[1], "name": part[2], "input": _value(part[3])}
    more = {"signature": ""} if part[0] == "thinking" else {}
    return {"type": part[0], part[0]: part[1], **more}


def _value(arguments: str) -> Json:
    try:
        return json.loads(arguments)
    except ValueError:  # the words of the captures were scrambled
        return {"text": arguments}


def _message(said: Said, usage: Usage) -> Json:
    has_tool = any(part[0] == "tool" for part in said)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [_block(part) for part in said],
        "stop_reason": "tool_use" if has_tool else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.prompt - usage.reused,
            "cache_read_input_tokens": usage.reused,
            "output_tokens": OUTPUT,
        },
    }


def _call(part: tuple[str, ...]) -> Json:
    return {"id": part[1], "type": "function", "function": {"name": part[2], "arguments": part[3]}}


def _chunk(**delta: object) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def _chunks(said: Said) -> Iterator[Json]:
    yield _chunk(role="assistant", content=None)
    tools = 0
    for part in said:
        if part[0] == "tool":
            half = len(part[3]) // 2
            call = _call((*part[:3], part[3][:half]))
            yield _chunk(tool_calls=[{"index": tools, **call}])
            yield _chunk(tool_calls=[{"index": tools, "function": {"arguments": part[3][half:]}}])
            tools += 1
        else:
            name = "content" if part[0] == "text" else "reasoning_content"
            yield _chunk(**{name: part[1]})
    last = _chunk()
    last["choices"][0]["finish_reason"] = "tool_calls" if tools else "stop"
    yield last


def _completion(said: Said, usage: Usage) -> Json:
    calls = [_call(part) for part in said if part[0] == "tool"]
    reasoning = "".join(part[1] for part in said if part[0] == "thinking")
    message = {
        "role": "assistant",
        "content": "".join(part[1] for part in said if part[0] == "text"),
        **({"reasoning_content": reasoning} if reasoning else {}),
        **({"tool_calls": calls} if calls else {}),
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return _chunk() | {
        "object": "chat.completion",
        "choices": [choice],
        "usage": _chat_usage(usage),
    }


def _chat_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": OUTPUT,
        "total_tokens": usage.prompt + OUTPUT,
        "prompt_tokens_details": {"cached_tokens": usage.reused},
    }


def _timings(usage: Usage) -> Json:
    new = usage.prompt - usage.reused
    return {
        "timings": {
            "cache_n": usage.reused,
            "prompt_n": new,
            "prompt_ms": new * SECONDS_READ * 1000,
            "prompt_per_second": 1 / SECONDS_READ,
            "predicted_n": OUTPUT,
            "predicted_ms": OUTPUT * SECONDS_WRITTEN * 1000,
            "predicted_per_second": 1 / SECONDS_WRITTEN,
        }
    }


def _responses(said: Said, usage: Usage) -> Iterator[Json]:
    output = []
    for number, part in enumerate(said):
        if part[0] == "tool":
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": part[1]}
            output.append(item | {"name": part[2], "arguments": part[3], "status": "completed"})
        else:
            text = {"type": "output_text", "text": part[1], "annotations": []}
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            output.append(item | {"status": "completed", "content": [text]})
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    yield {"type": "response.created", "response": response | {"output": []}}
    for number, item in enumerate(output):
        yield {"type": "response.output_item.done", "output_index": number, "item": item}
    counted = {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.reused},
        "output_tokens": OUTPUT,
        "total_tokens": usage.prompt + OUTPUT,
    }
    done = response | {"status": "completed", "output": output, "usage": counted}
    yield {"type": "response.completed", "response": done}


def _gemini(said: Said, usage: Usage) -> Json:
    parts = [{"text": part[1]} for part in said if part[0] == "text"]
    counted = {"promptTokenCount": usage.prompt, "cachedContentTokenCount": usage.reused}
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content}], "usageMetadata": counted}
