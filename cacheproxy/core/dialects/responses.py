"""OpenAI's Responses API. Source: its API reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproxy.core.dialects.answer import ReadAnswer, Reading
from cacheproxy.core.dialects.content import SYSTEM_ROLES
from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling
from cacheproxy.core.dialects.errors import is_overflow, refusal
from cacheproxy.core.dialects.stream import CUT, Whole, event, is_error

_Json = dict[str, Any]
_OURS = ("type", "strict")
"""Members of a tool that Chat Completions has outside of ``function``, or not at all."""
_LAST = frozenset({"response.completed", "response.failed", "response.incomplete"})
_EMPTY: _Json = {
    "object": "response",
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
    "output": [],
    "usage": None,
}
"""Members of a response at its beginning."""
_REQUIRED: _Json = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
"""Further members that official SDKs require, for a response that no server has begun."""
_INDEX = {"content": "content_index", "summary": "summary_index"}
"""Lists of an item, each with the member of events that has a part's index."""
_PARTS = {
    "output_text": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning_text", "text"),
    "summary_text": ("reasoning_summary_text", "text"),
}
"""Types of parts that come in pieces, each with the name of its events and of the text's member."""


def _as_chat(body: _Json) -> _Json:
    """Return a body's prompt in Chat Completions, as llama-server reads it (server-chat.cpp)."""
    messages: list[_Json] = []
    if isinstance(body.get("instructions"), str):
        messages.append({"role": "system", "content": body["instructions"]})
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    for item in items:
        _add(messages, item)
    found = {**body, "messages": messages}
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict) and isinstance(reasoning.get("effort"), str):
        found["reasoning_effort"] = reasoning["effort"]
    if isinstance(body.get("tools"), list):
        found["tools"] = [
            {
                "type": "function",
                "function": {name: tool[name] for name in tool if name not in _OURS},
            }
            for tool in body["tools"]
            if tool.get("type") == "function"
        ]
    return found


def _add(messages: list[_Json], item: _Json) -> None:
    kind = item.get("type", "message")
    last = messages[-1] if messages else {}
    if kind == "function_call":
        function = {"name": item["name"], "arguments": item["arguments"]}
        call = {"id": item["call_id"], "type": "function", "function": function}
        if last.get("role") == "assistant":
            last.setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    elif kind == "function_call_output":
        output = _text(item["output"])
        said = {"role": "tool", "tool_call_id": item["call_id"], "content": output}
        messages.append(said)
    elif kind == "reasoning":
        thought = _text(item.get("content") or item.get("summary") or "")
        messages.append({"role": "assistant", "content": "", "reasoning_content": thought})
    elif kind == "message":
        role, text = item["role"], _text(item["content"])
        role = "system" if role in SYSTEM_ROLES else role
        thinks = "reasoning_content" in last and "tool_calls" not in last and not last["content"]
        if role == "assistant" and thinks:
            last["content"] = text
        else:
            messages.append({"role": role, "content": text})
    else:
        raise ValueError(kind)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content)


def _read(answer: ReadAnswer, whole: _Json) -> None:
    output = whole.get("output")
    if not isinstance(output, list):
        raise ValueError("it is no response")  # noqa: TRY004 (as what is no JSON)
    answer.items = {at: item for at, item in enumerate(output) if isinstance(item, dict)}


def _read_event(answer: ReadAnswer, event: _Json) -> None:
    kind, item, whole = str(event.get("type")), event.get("item"), event.get("response")
    if kind == "response.output_item.done" and isinstance(item, dict):
        at = event.get("output_index")  # llama.cpp sends none
        answer.items[at if isinstance(at, int) else len(answer.items)] = item
    elif kind in _LAST and isinstance(whole, dict) and whole.get("output"):
        _read(answer, whole)


def _deferred_error(status: int, message: str, has_begun: bool) -> bytes:
    """Return ``response.failed``, after ``response.created`` if that has not come.

    Codex reacts to the code in its response; OpenAI's SDKs raise the ``error`` beside that.
    """
    code = "server_error" if status >= 500 else "invalid_prompt"
    if is_overflow(status, message):
        code = "context_length_exceeded"
    elif status == 429:
        code = "rate_limit_exceeded"
    error = {"code": code, "message": message}
    response: _Json = {"id": "resp_cacheproxy", "created_at": 0, "model": "", **_EMPTY, **_REQUIRED}
    created = [] if has_begun else [("response.created", {"response": response})]
    failed = response | {"status": "failed", "error": error}
    return _numbered([*created, ("response.failed", {"response": failed, "error": error})])


def _whole() -> Whole:
    """Make a response out of its events: it is in the last one, in some without its items."""
    found: _Json | None = None
    items: dict[int, _Json] = {}
    while (one := (yield)) is not None:
        kind = one.get("type")
        if kind in _LAST and isinstance(one.get("response"), dict):
            found = one["response"]
        elif is_error(one):
            raise ValueError(refusal(500, one))
        elif kind == "response.output_item.done":
            items[one.get("output_index", len(items))] = one["item"]  # llama.cpp sends no index
    if found is None:
        raise ValueError(CUT)
    return found if found.get("output") else found | {"output": [items[at] for at in sorted(items)]}


def _events(whole: _Json, _wanted: _Json | None) -> bytes:
    """Return a response as the events of OpenAI's API, with one delta for each text."""
    if whole.get("object") != "response" or not isinstance(whole.get("output"), list):
        raise ValueError("it is no response")
    status = whole.get("status", "completed")
    begun = whole | _EMPTY | {"completed_at": None}
    found: list[tuple[str, _Json]] = [
        (f"response.{name}", {"response": begun}) for name in ("created", "in_progress")
    ]
    for index, item in enumerate(whole["output"]):
        found += (
            (f"response.{name}", {"output_index": index, **more})
            for name, more in _item_events(item)
        )
    last = status if f"response.{status}" in _LAST else "completed"
    return _numbered([*found, (f"response.{last}", {"response": whole})])


def _item_events(item: _Json) -> Iterator[tuple[str, _Json]]:
    """Yield the names and members of the events of one item."""
    of: _Json = {"item_id": item.get("id", "")}
    lists: _Json = {name: [] for name in ("content", "summary") if isinstance(item.get(name), list)}
    called = item.get("type") == "function_call"
    text = {"arguments": ""} if called else {}
    begun = {"status": "in_progress"} if "status" in item and (lists or text) else {}
    yield "output_item.added", {"item": item | begun | lists | text}
    if called:
        yield "function_call_arguments.delta", of | {"delta": item["arguments"]}
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield "function_call_arguments.done", of | done
    for name in lists:
        for at, part in enumerate(item[name]):
            yield from _part_events(part, of | {_INDEX[name]: at})
    yield "output_item.done", {"item": item}


def _part_events(part: _Json, of: _Json) -> Iterator[tuple[str, _Json]]:
    """Yield the events of one part of an item; ``of``: members that identify the part."""
    name, member = _PARTS.get(str(part.get("type")), ("", ""))
    around = "reasoning_summary_part" if "summary_index" in of else "content_part"
    yield f"{around}.added", of | {"part": part | ({member: ""} if member else {})}
    if name:
        more = {"logprobs": part.get("logprobs") or []} if name == "output_text" else {}
        yield f"{name}.delta", of | {"delta": part[member], **more}
        yield f"{name}.done", of | {member: part[member], **more}
    yield f"{around}.done", of | {"part": part}


def _numbered(events: list[tuple[str, _Json]]) -> bytes:
    return b"".join(
        event({"type": kind, "sequence_number": number, **more})
        for number, (kind, more) in enumerate(events)
    )


RESPONSES = Dialect(
    name="openai-responses",
    path="/v1/responses",
    endpoints=(Endpoint("/responses", Purpose.CHAT),),
    items="input",
    is_itemised=True,
    text_types=("input_text", "text"),
    is_text=True,
    head="instructions",
    limits=("max_output_tokens",),
    unstored={"store": False},
    as_chat=_as_chat,
    usage=(
        UsageSpelling(
            signs=("input_tokens_details", "total_tokens"),
            prompt=("input_tokens",),
            output=("output_tokens",),
            reused=("input_tokens_details.cached_tokens",),
            written=(
                "input_tokens_details.created_cache_tokens",
                "input_tokens_details.cache_write_tokens",
            ),
        ),
    ),
    reports_reused=True,
    end=EndMarks(lambda message: str(message.get("type")) in _LAST, _LAST),
    # As from api.openai.com, but without a number, so that the server's own have no gap.
    sign=lambda _: event({"type": "keepalive"}),
    sign_waits=True,
    whole=_whole,
    events=_events,
    reading=Reading(_read, _read_event),
    deferred_error=_deferred_error,
)
"""``/v1/responses``."""
