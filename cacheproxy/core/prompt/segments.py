"""The pieces of a prompt: a message, a tool or a system text as compared text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from sys import getsizeof
from typing import Any, NamedTuple

from cacheproxy.core.document.compare import alike

EACH_SEGMENT = 400
"""Bytes that Python adds to the texts themselves, as measured."""


class Part(StrEnum):
    """The part of a prompt that a segment belongs to."""

    TOOLS = "tools"
    SYSTEM = "system"
    MESSAGES = "messages"


_SOURCES = {
    "assistant": "model",
    "model": "model",
    "user": "user",
    "tool": "tool",
    "function": "tool",
}


class Segment(NamedTuple):
    """One piece of a prompt."""

    part: Part  #: the part it belongs to
    path: str  #: JSON pointer to where it stands
    text: str  #: how it reads
    role: str = ""  #: of the message it is part of, empty for tools and the system text
    source: str = "client"
    """Who wrote it: ``client`` (tools, system), ``user``, ``model`` or ``tool``."""


def is_same_call(one: Segment, other: Segment) -> bool:
    """Whether both are the same tool call of the model, its arguments spelled in another way."""
    if one.source != "model" or other.source != "model" or not one.text.startswith("{"):
        return False
    ours, theirs = _call(one.text), _call(other.text)
    return ours is not None and theirs is not None and alike(ours, theirs)


def _call(text: str) -> dict[str, Any] | None:
    """Return the tool call that ``text`` is, its arguments as a value; None for all else."""
    try:
        call = json.loads(text)
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return None
        arguments = call.get("arguments")
        return call | {"arguments": json.loads(arguments)} if isinstance(arguments, str) else call
    except (ValueError, RecursionError):
        return None


class Piece(NamedTuple):
    """What one value of a body reads as, so that the next turn can use it again."""

    part: Part  #: the part it belongs to
    segments: tuple[Segment, ...] = ()  #: its texts, in their order
    chars: int = 0  #: characters of all its texts
    cost: int = 0
    """Bytes that it takes, roughly: one emoji makes each character of its text take four."""
    digests: tuple[int, ...] = ()
    """A number for each text of a message, but for the sign that it begins."""
    names: frozenset[str] = frozenset()  #: those of the tools
    thinking: int = 0  #: characters of reasoning


def piece_of(part: Part, segments: Iterable[Segment], names: frozenset[str] = frozenset()) -> Piece:
    """Return ``segments`` as a piece."""
    found = tuple(segments)
    texts = [segment.text for segment in found]
    digests = (
        tuple(hash(segment.text) for segment in found if not segment.path.endswith("/role"))
        if part is Part.MESSAGES
        else ()
    )
    cost = sum(map(getsizeof, texts)) + EACH_SEGMENT * len(texts)
    thinking = sum(len(one.text) for one in found if one.source == "model" and _is_thought(one))
    return Piece(part, found, sum(map(len, texts)), cost, digests, names, thinking)


def _is_thought(segment: Segment) -> bool:
    """Whether it is reasoning: a text of its own, or an item of the Responses API."""
    return segment.role == "reasoning" or segment.path.endswith(_THOUGHT_ENDS)


class PieceRun(NamedTuple):
    """Pieces in a row, and what they come to: the next turn adds its own to that.

    So a turn costs what is new in it, and not a look at each message there is: with 400 of them
    that is most of what a comparison takes.
    """

    pieces: tuple[Piece, ...] = ()  #: one for each message
    chars: int = 0  #: characters of all texts
    cost: int = 0  #: bytes that they take, roughly
    digests: tuple[int, ...] = ()  #: of all pieces, one after the other
    thinking: int = 0  #: characters of reasoning

    def then(self, more: Sequence[Piece]) -> PieceRun:
        """Return the run that has ``more`` behind it."""
        if not more:
            return self
        return PieceRun(
            (*self.pieces, *more),
            self.chars + sum(map(_CHARS, more)),
            self.cost + sum(map(_COST, more)),
            (*self.digests, *chain.from_iterable(map(_DIGESTS, more))),
            self.thinking + sum(map(_THINKING, more)),
        )

    def first(self, count: int) -> PieceRun:
        """Return the run of the first ``count`` pieces."""
        gone = self.pieces[count:]
        if not gone:
            return self
        digests = len(self.digests) - sum(len(piece.digests) for piece in gone)
        return PieceRun(
            self.pieces[:count],
            self.chars - sum(map(_CHARS, gone)),
            self.cost - sum(map(_COST, gone)),
            self.digests[:digests],
            self.thinking - sum(map(_THINKING, gone)),
        )


_CHARS, _COST, _DIGESTS, _THINKING = map(attrgetter, ("chars", "cost", "digests", "thinking"))


def tool_name(tool: Any) -> str | None:
    """Return what a tool is called, in any dialect; for a built-in one that is its type."""
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    for holder in (function, tool):
        if isinstance(holder, dict) and isinstance(holder.get("name"), str):
            return str(holder["name"])
    kind = tool.get("type")
    return kind if isinstance(kind, str) and kind not in ("function", "object", "text") else None


def names_of(tools: Iterable[Any]) -> frozenset[str]:
    """Return the names of tools, given as values."""
    return frozenset(tool_name(tool) or "" for tool in tools)


def is_gemini(path: str) -> bool:
    """Whether ``path`` is Gemini's API: seen in captures of its client, never sent upstream."""
    return path.rpartition(":")[2] in ("generateContent", "streamGenerateContent")


def gemini_tools(body: dict[str, Any]) -> Iterator[Segment]:
    """Yield the tools of a request in Gemini's API."""
    for index, tool in enumerate(_list(body.get("tools"))):
        declared = tool.get("functionDeclarations") if isinstance(tool, dict) else None
        for number, function in enumerate(_list(declared)):
            path = f"/tools/{index}/functionDeclarations/{number}"
            yield Segment(Part.TOOLS, path, _json(function))


def gemini_texts(body: dict[str, Any]) -> Iterator[Segment]:
    """Yield its system text and its messages."""
    holder = body.get("systemInstruction")
    yield from _gemini_parts("/systemInstruction", holder, Part.SYSTEM, "")
    for index, item in enumerate(_list(body.get("contents"))):
        role = item.get("role") if isinstance(item, dict) else None
        role = role if isinstance(role, str) else ""
        yield Segment(Part.MESSAGES, f"/contents/{index}/role", f"\n<{role}>\n", role)
        yield from _gemini_parts(f"/contents/{index}", item, Part.MESSAGES, role)


def _gemini_parts(path: str, holder: Any, part: Part, role: str) -> Iterator[Segment]:
    parts = holder.get("parts") if isinstance(holder, dict) else None
    for index, block in enumerate(_list(parts)):
        where = f"{path}/parts/{index}"
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield Segment(part, f"{where}/text", block["text"], role, _source(role))
        elif isinstance(block, dict):
            # Each answer is signed anew.
            shown = {key: value for key, value in block.items() if key != "thoughtSignature"}
            source = "tool" if "functionResponse" in block else _source(role)
            yield Segment(part, where, _json(shown), role, source)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def item_of(path: str, item: Any, part: Part, role: str) -> Iterator[Segment]:
    """One message, or one of the Responses API's other items (function_call …)."""
    if not isinstance(item, dict):
        yield Segment(part, path, _json(item), role, _source(role))
        return
    kind = item.get("type")
    if kind not in (None, "message"):
        source = "tool" if str(kind).endswith("_output") else "model"
        shown = {key: value for key, value in item.items() if key not in ("id", "status")}
        yield Segment(part, path, _json(shown), str(kind), source)
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
        yield Segment(part, f"{path}/tool_calls/{index}", _json(function or call), role, "model")


def content_of(path: str, content: Any, part: Part, role: str) -> Iterator[Segment]:
    """Yield the texts of a message or system text: it is one string, or a list of blocks."""
    if isinstance(content, str):
        if content:
            yield Segment(part, path, content, role, _source(role))
        return
    for index, block in enumerate(content if isinstance(content, list) else ()):
        yield from _block(f"{path}/{index}", block, part, role)


_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_THOUGHT_ENDS = tuple(f"/{name}" for name in _THOUGHTS)
_TEXTS = ("text", "input_text", "output_text")


def _block(path: str, block: Any, part: Part, role: str) -> Iterator[Segment]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in _TEXTS and isinstance(block.get("text"), str):
        yield Segment(part, f"{path}/text", block["text"], role, _source(role))
    elif kind == "tool_result":
        yield Segment(part, path, "\n<tool_result>\n", role, "tool")
        yield from content_of(f"{path}/content", block.get("content"), part, "tool")
    elif kind == "tool_use":
        shown = {key: block.get(key) for key in ("name", "input")}
        yield Segment(part, path, _json(shown), role, "model")
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        yield Segment(part, f"{path}/thinking", block["thinking"], role, "model")
    else:
        shown = block
        if isinstance(block, dict):
            shown = {key: value for key, value in block.items() if key != "cache_control"}
        yield Segment(part, path, _json(shown), role, _source(role))


def _source(role: str) -> str:
    return _SOURCES.get(role, "client")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
