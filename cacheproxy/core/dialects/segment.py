"""One piece of a prompt, and how messages read as such: their shapes are alike in most APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

_SOURCES = {
    "assistant": "model",
    "model": "model",
    "user": "user",
    "tool": "tool",
    "function": "tool",
}
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
THOUGHT_ENDS = tuple(f"/{name}" for name in _THOUGHTS)
"""How the paths of reasoning end."""
_TEXTS = ("text", "input_text", "output_text")


class Part(StrEnum):
    """The part of a prompt that a segment belongs to."""

    TOOLS = "tools"
    SYSTEM = "system"
    MESSAGES = "messages"


class Segment(NamedTuple):
    """One piece of a prompt."""

    part: Part  #: the part it belongs to
    path: str  #: JSON pointer to where it stands
    text: str  #: how it reads
    role: str = ""  #: of the message it is part of, empty for tools and the system text
    source: str = "client"
    """Who wrote it: ``client`` (tools, system), ``user``, ``model`` or ``tool``."""


def item_of(path: str, item: Any, part: Part, role: str) -> Iterator[Segment]:
    """One message, or one of the Responses API's other items (function_call …)."""
    if not isinstance(item, dict):
        yield Segment(part, path, compact(item), role, source_of(role))
        return
    kind = item.get("type")
    if kind not in (None, "message"):
        source = "tool" if str(kind).endswith("_output") else "model"
        shown = {key: value for key, value in item.items() if key not in ("id", "status")}
        yield Segment(part, path, compact(shown), str(kind), source)
        return
    yield Segment(part, f"{path}/role", f"\n<{role}>\n", role)
    yield from content_of(f"{path}/content", item.get("content"), part, role)
    for key in _THOUGHTS:
        if isinstance(item.get(key), str):
            yield Segment(part, f"{path}/{key}", item[key], role, "model")
            break  # it is sent under both names by some, and read once
    calls = item.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        yield Segment(part, f"{path}/tool_calls/{index}", compact(function or call), role, "model")


def content_of(path: str, content: Any, part: Part, role: str) -> Iterator[Segment]:
    """Yield the texts of a message or system text: it is one string, or a list of blocks."""
    if isinstance(content, str):
        if content:
            yield Segment(part, path, content, role, source_of(role))
        return
    for index, block in enumerate(content if isinstance(content, list) else ()):
        yield from _block(f"{path}/{index}", block, part, role)


def _block(path: str, block: Any, part: Part, role: str) -> Iterator[Segment]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in _TEXTS and isinstance(block.get("text"), str):
        yield Segment(part, f"{path}/text", block["text"], role, source_of(role))
    elif kind == "tool_result":
        yield Segment(part, path, "\n<tool_result>\n", role, "tool")
        yield from content_of(f"{path}/content", block.get("content"), part, "tool")
    elif kind == "tool_use":
        shown = {key: block.get(key) for key in ("name", "input")}
        yield Segment(part, path, compact(shown), role, "model")
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        yield Segment(part, f"{path}/thinking", block["thinking"], role, "model")
    else:
        shown = block
        if isinstance(block, dict):
            shown = {key: value for key, value in block.items() if key != "cache_control"}
        yield Segment(part, path, compact(shown), role, source_of(role))


def source_of(role: str) -> str:
    """Return who writes messages of ``role``, as ``Segment.source`` has it."""
    return _SOURCES.get(role, "client")


def compact(value: Any) -> str:
    """Return ``value`` as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
