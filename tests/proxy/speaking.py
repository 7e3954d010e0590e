"""Answers of a scripted model, in each API, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.core.conversation.people import Said
from tests.core.conversation.worlds import TOOL

_USAGE = {"input_tokens": 9, "output_tokens": 3}


def spoken(path: str, said: Said) -> tuple[bytes, bytes]:
    """An answer's type and body."""
    made = {"/v1/messages": _message, "/v1/responses": _response, "/api/chat": _ollama}
    return b"application/json", json.dumps(made.get(path, _completion)(said)).encode()


def streamed(path: str, said: Said) -> tuple[bytes, bytes, bytes]:
    """A stream's type, and it in two parts: all that is said stands in the first."""
    if path == "/api/chat":
        last = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True}
        first = _ollama(said) | {"done": False}
        return b"application/x-ndjson", _lines(first), _lines(last | {"done_reason": "stop"})
    if path == "/v1/messages":
        events = list(_message_events(said))
        at = -2
    elif path == "/v1/responses":
        events = list(_response_events(said))
        at = -1
    else:
        first = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in _chunks(said))
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if said.calls else "stop"}
        last = b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(_CHUNK | {"choices": [end]}).encode()
        return b"text/event-stream", first, last
    made = [b"event: %s\ndata: %s\n\n" % (e["type"].encode(), _bytes(e)) for e in events]
    return b"text/event-stream", b"".join(made[:at]), b"".join(made[at:])


_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def _lines(*values: Any) -> bytes:
    return b"".join(_bytes(one) + b"\n" for one in values)


def _called(said: Said) -> list[dict[str, Any]]:
    return [
        {"id": call, "type": "function", "function": {"name": TOOL, "arguments": given}}
        for call, given in said.calls
    ]


def _completion(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.thought:
        message["reasoning_content"] = said.thought
    if said.calls:
        message["tool_calls"] = _called(said)
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if said.calls else "stop",
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    made = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return made | {"choices": [choice], "usage": usage}


def _chunks(said: Said) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": said.thought}] if said.thought else []
    deltas += [{"content": said.text}] if said.text else []
    deltas += [{"tool_calls": [c | {"index": n}]} for n, c in enumerate(_called(said))]
    for delta in deltas:
        yield _CHUNK | {"choices": [{"index": 0, "delta": delta}]}


def _blocks(said: Said) -> list[dict[str, Any]]:
    thought = {"type": "thinking", "thinking": said.thought, "signature": ""}
    text = {"type": "text", "text": said.text}
    used = [
        {"type": "tool_use", "id": call, "name": TOOL, "input": json.loads(given)}
        for call, given in said.calls
    ]
    return [*([thought] if said.thought else []), *([text] if said.text else []), *used]


def _message(said: Said) -> dict[str, Any]:
    made = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": _USAGE}
    stop = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
    return made | {"content": _blocks(said)} | stop


def _message_events(said: Said) -> Iterator[dict[str, Any]]:
    opened = _message(said) | {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": opened}
    for index, block in enumerate(_blocks(said)):
        kind = block["type"]
        member = {"thinking": "thinking", "text": "text", "tool_use": "input"}[kind]
        begun = block | {member: {} if kind == "tool_use" else ""}
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        if kind == "tool_use":
            given = dict(said.calls)[block["id"]]
            delta = {"type": "input_json_delta", "partial_json": given}
        else:
            delta = {"type": f"{kind}_delta", member: block[member]}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 3}}
    yield {"type": "message_stop"}


def _items(said: Said) -> list[dict[str, Any]]:
    summary = [{"type": "summary_text", "text": said.thought}]
    thought = {"type": "reasoning", "id": "rs", "summary": summary}
    block = {"type": "output_text", "text": said.text, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [block]}
    calls = [
        {"type": "function_call", "id": "f", "call_id": call, "name": TOOL, "arguments": given}
        for call, given in said.calls
    ]
    done = [*([thought] if said.thought else []), *([item] if said.text else []), *calls]
    return [one | {"status": "completed"} for one in done]


def _response(said: Said) -> dict[str, Any]:
    made = {"id": "r", "object": "response", "model": "m", "status": "completed"}
    return made | {"output": _items(said), "usage": _USAGE | {"total_tokens": 12}}


def _response_events(said: Said) -> Iterator[dict[str, Any]]:
    whole = _response(said)
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        if item["type"] == "message":
            where = {"item_id": "m", "output_index": index, "content_index": 0}
            yield {"type": "response.output_text.delta", "delta": said.text} | where
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


def _ollama(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.thought:
        message["thinking"] = said.thought
    if said.calls:
        used = [{"function": {"name": TOOL, "arguments": json.loads(a)}} for _, a in said.calls]
        message["tool_calls"] = used
    counts = {"prompt_eval_count": 9, "eval_count": 3}
    return {"model": "m", "message": message, "done": True, "done_reason": "stop"} | counts
