"""The content of a message, in most APIs alike: blocks, texts, tool calls; and its segments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from cacheproxy.core.document.pointer import Path

NOT_JSON = "INVALID_JSON"
"""Member that has the text of a call's arguments if they are no JSON object."""
SYSTEM_ROLES = ("system", "developer")
"""The roles of system text. OpenAI's newer models call it developer."""
_TEXTS = ("text", "input_text")
_Json = dict[str, Any]
_CLIENT = "client"
_SOURCES = {
    "assistant": "model",
    "model": "model",
    "user": "user",
    "tool": "tool",
    "function": "tool",
}
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_BESIDE_CONTENT = frozenset((*_THOUGHTS, "tool_calls"))
THOUGHT_ENDS = tuple(f"/{name}" for name in _THOUGHTS)
"""Ends of the paths of reasoning."""
_SHOWN_TEXTS = (*_TEXTS, "output_text")


class Call(NamedTuple):
    """A tool call."""

    id: Any  #: id of the call, of any type, as in the request
    name: str  #: name of the tool
    path: Path  #: path to the arguments
    arguments: Any  #: JSON text or value at ``path``


def blocks_of(content: Any) -> list[Any]:
    """Return the content of a message as blocks, without cache breakpoints (not in the prompt)."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {key: value for key, value in block.items() if key != "cache_control"}
        if isinstance(block, dict) and "cache_control" in block
        else block
        for block in (content if isinstance(content, list) else ())
    ]


def is_text(block: Any) -> bool:
    """Whether ``block`` is a text block."""
    return (
        isinstance(block, dict)
        and block.get("type") in _TEXTS
        and isinstance(block.get("text"), str)
    )


def texts_in(content: Any) -> list[str]:
    """Return the texts in the content of a message, one for each block."""
    return [block["text"] for block in blocks_of(content) if is_text(block)]


def texts_shown(content: Any) -> list[str]:
    """Return the texts in the content of a message, without the blank ones."""
    return [text for text in texts_in(content) if text and not text.isspace()]


def calls_in(message: _Json, at: Path = ()) -> list[Call]:
    """Return the tool calls in the message at the path ``at``."""
    found: list[Call] = []
    if message.get("type") == "function_call":
        name, given = str(message.get("name")), message.get("arguments")
        found.append(Call(message.get("call_id"), name, (*at, "arguments"), given))
    calls, content = message.get("tool_calls"), message.get("content")
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            path = (*at, "tool_calls", number, "function", "arguments")
            name, given = str(function.get("name")), function.get("arguments")
            found.append(Call(call.get("id"), name, path, given))
    for number, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict) and block.get("type") == "tool_use":
            path = (*at, "content", number, "input")
            found.append(Call(block.get("id"), str(block.get("name")), path, block.get("input")))
    return found


def call_ids_in(message: Any) -> Iterator[tuple[Path, str]]:
    """Yield path and id of each call in a message, and of each call whose result is in it."""
    if not isinstance(message, dict):
        return
    found: list[tuple[Path, Any]] = []
    if message.get("type") in ("function_call", "function_call_output"):
        found.append((("call_id",), message.get("call_id")))
    if message.get("role") == "tool":
        found.append((("tool_call_id",), message.get("tool_call_id")))
    for number, call in _objects(message.get("tool_calls")):
        found.append((("tool_calls", number, "id"), call.get("id")))
    for number, block in _objects(message.get("content")):
        name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(str(block.get("type")))
        if name is not None:
            found.append((("content", number, name), block.get(name)))
    yield from ((path, spelled) for path, spelled in found if isinstance(spelled, str))


def _objects(values: Any) -> Iterator[tuple[int, _Json]]:
    for number, value in enumerate(values if isinstance(values, list) else ()):
        if isinstance(value, dict):
            yield number, value


class Part(StrEnum):
    """The part of a prompt that a segment belongs to."""

    TOOLS = "tools"
    SYSTEM = "system"
    MESSAGES = "messages"


class Segment(NamedTuple):
    """One piece of a prompt."""

    part: Part  #: part of the prompt that it belongs to
    path: str  #: JSON pointer to its place in the body
    text: str  #: text of the segment
    role: str = ""  #: role of its message, empty for tools and the system text
    source: str = "client"
    """Author of the text: ``client`` (tools, system), ``user``, ``model`` or ``tool``."""


def is_mark(segment: Segment) -> bool:
    """Whether ``segment`` is only the mark of a message's beginning."""
    return segment.path.endswith("/role") and segment.text.startswith("\n<")


def item_of(path: str, item: Any, part: Part, role: str) -> list[Segment]:
    """Return the segments of a message, or of another item of the Responses API (function_call …).

    ``role``: role of the message, for its segments.
    """
    if not isinstance(item, dict):
        return [Segment(part, path, compact(item), role, source_of(role))]
    kind = item.get("type")
    if kind not in (None, "message"):
        source = "tool" if str(kind).endswith("_output") else "model"
        shown = {key: value for key, value in item.items() if key not in ("id", "status")}
        return [Segment(part, path, compact(shown), str(kind), source)]
    found = [Segment(part, f"{path}/role", f"\n<{role}>\n", role)]
    found += content_of(f"{path}/content", item.get("content"), part, role)
    if _BESIDE_CONTENT.isdisjoint(item):
        return found
    for key in _THOUGHTS:
        if isinstance(item.get(key), str):
            found.append(Segment(part, f"{path}/{key}", item[key], role, "model"))
            break  # some send it under two names; it is read once
    calls = item.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        text = compact(function or call)
        found.append(Segment(part, f"{path}/tool_calls/{index}", text, role, "model"))
    return found


def content_of(path: str, content: Any, part: Part, role: str) -> list[Segment]:
    """Return the segments of a message's content or system text: a string, or a list of blocks."""
    source = _SOURCES.get(role, _CLIENT)
    if isinstance(content, str):
        return [Segment(part, path, content, role, source)] if content else []
    found: list[Segment] = []
    for index, block in enumerate(content if isinstance(content, list) else ()):
        kind = block.get("type") if isinstance(block, dict) else None
        at = f"{path}/{index}"
        if kind in _SHOWN_TEXTS and isinstance(block.get("text"), str):
            found.append(Segment(part, f"{at}/text", block["text"], role, source))
        elif kind == "tool_result":
            found.append(Segment(part, at, "\n<tool_result>\n", role, "tool"))
            found += content_of(f"{at}/content", block.get("content"), part, "tool")
        elif kind == "tool_use":
            text = compact({"name": block.get("name"), "input": block.get("input")})
            found.append(Segment(part, at, text, role, "model"))
        elif kind == "thinking" and isinstance(block.get("thinking"), str):
            found.append(Segment(part, f"{at}/thinking", block["thinking"], role, "model"))
        else:
            shown = block
            if isinstance(block, dict) and "cache_control" in block:
                shown = {key: one for key, one in block.items() if key != "cache_control"}
            found.append(Segment(part, at, compact(shown), role, source))
    return found


def source_of(role: str) -> str:
    """Return the author of messages of ``role``, in the words of ``Segment.source``."""
    return _SOURCES.get(role, _CLIENT)


def compact(value: Any) -> str:
    """Return ``value`` as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
