"""A body as the ordered segments a chat template would render: tools, system, messages.

Two requests whose segments read alike are alike to the server, however their JSON is spelt:
cache breakpoints (``cache_control``) are no part of a prompt, and a text is the same whether it
stands as a string or as one text block. Key order inside a tool is part of it: templates print
tools as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from operator import is_, itemgetter
from typing import Any, NamedTuple

from cacheproxy.core import dialect
from cacheproxy.core.container import Container, Entry
from cacheproxy.core.document import Document
from cacheproxy.core.once import Once
from cacheproxy.core.request import Request
from cacheproxy.core.segments import (
    Part,
    Piece,
    Segment,
    content_of,
    gemini_texts,
    gemini_tools,
    is_gemini,
    item_of,
    names_of,
    piece_of,
)

__all__ = ["Order", "Part", "Prompt", "Segment", "first_item", "prompt_of"]


class Order(StrEnum):
    """What a chat template prints first. It decides what a change costs."""

    TOOLS_FIRST = "tools first"
    SYSTEM_FIRST = "system first"


class Made(NamedTuple):
    """What a prompt was made of, and what became of it: ``item_pieces`` one for each item."""

    spoken: str
    tools: Container | None
    tool_piece: Piece
    texts: dict[str, Piece]
    items: list[Any]
    item_pieces: tuple[Piece, ...]


_NO_TOOLS = Piece(None, Part.TOOLS)
_NOTHING = Made("", None, _NO_TOOLS, {}, [], ())
_SEGMENTS, _CHARS, _COST, _DIGESTS = map(
    itemgetter, map(Piece._fields.index, ("segments", "chars", "cost", "digests"))
)


@dataclass(frozen=True)
class Prompt:
    """A whole prompt, in the order of the template. ``model`` as the request names it.

    ``pieces``: the same segments, by the values they were made of; ``made``: for the next turn.
    """

    model: str
    segments: tuple[Segment, ...]
    pieces: tuple[Piece, ...] = field(default=(), compare=False, repr=False)
    made: Made = field(default=_NOTHING, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.pieces:
            pieces = tuple(piece_of(None, segment.part, [segment]) for segment in self.segments)
            object.__setattr__(self, "pieces", pieces)

    @Once
    def chars(self) -> int:
        """Characters of all segments."""
        return sum(map(_CHARS, self.pieces))

    @Once
    def cost(self) -> int:
        """Bytes that keeping it takes, roughly: the texts, and what Python adds to each."""
        return sum(map(_COST, self.pieces))

    @Once
    def digests(self) -> tuple[int, ...]:
        """A number for each text of the messages."""
        return tuple(chain.from_iterable(map(_DIGESTS, self.pieces)))

    def of(self, part: Part) -> tuple[Segment, ...]:
        """Return the segments of the tools or of the system text, which stand first."""
        found: tuple[Segment, ...] = ()
        for piece in self.pieces:
            if piece.part is Part.MESSAGES:
                break
            if piece.part is part:
                found += piece.segments
        return found

    @property
    def first_item(self) -> Any:
        """The value of the first message, None if there is none."""
        return self.made.items[0] if self.made.items else None


def prompt_of(
    request: Request, order: Order = Order.TOOLS_FIRST, earlier: Prompt | None = None
) -> Prompt | None:
    """Return the prompt of ``request``, or None if it has none that we can read.

    ``earlier``: one that is likely to be much the same. Whatever it is, the prompt is the same,
    but what both have in common is taken from there: a turn costs what is new in it.
    """
    document = request.document
    if document is None:
        return None
    known = earlier.made if earlier is not None else _NOTHING
    if request.dialect is not None:
        made = _made(request.dialect, document, known)
    elif is_gemini(request.path):
        made = _gemini(document.value)
    else:
        return None
    texts = (*made.texts.values(), *made.item_pieces)
    system = [piece for piece in texts if piece.part is Part.SYSTEM]
    rest = texts if not system else [piece for piece in texts if piece.part is not Part.SYSTEM]
    head = (made.tool_piece, *system) if order is Order.TOOLS_FIRST else (*system, made.tool_piece)
    pieces = (*head, *rest)
    segments = tuple(chain.from_iterable(map(_SEGMENTS, pieces)))
    model = document.value.get("model")
    name = model if isinstance(model, str) else ""
    return Prompt(name, segments, pieces, made) if segments else None


def first_item(request: Request) -> Any:
    """Return the value of the first message, by which a conversation is known again."""
    items = (request.json or {}).get(_items_name(request.dialect))
    return items[0] if isinstance(items, list) and items else None


def _items_name(spoken: str | None) -> str:
    return "input" if spoken == dialect.RESPONSES else "messages"


def _made(spoken: str, document: Document, known: Made) -> Made:
    body = document.value
    if known.spoken != spoken:
        known = _NOTHING
    if spoken == dialect.COMPLETION:
        # One text of everybody's words: nothing in it is known to be the client's own.
        return Made(spoken, None, _NO_TOOLS, _texts(body, known, ("prompt",)), [], ())
    name = _items_name(spoken)
    names = ["system", "instructions"]
    names += [each for each in ("prompt", name) if isinstance(body.get(each), str)]
    tools = document.inner("tools")
    if tools is None or tools is not known.tools:
        tool_piece = _tools(document, tools, known)
    else:
        tool_piece = known.tool_piece
    items = document.inner(name)
    at_head = spoken != dialect.ANTHROPIC
    pieces: tuple[Piece, ...] = ()
    if items is not None and items.keys is None:
        pieces = _items(document, name, items, known, at_head=at_head)
    values = items.values if pieces and items is not None else []
    return Made(spoken, tools, tool_piece, _texts(body, known, names), values, pieces)


def _texts(body: dict[str, Any], known: Made, names: Iterable[str]) -> dict[str, Piece]:
    """Texts that stand outside the messages, by the names of their members."""
    found: dict[str, Piece] = {}
    for name in names:
        value, earlier = body.get(name), known.texts.get(name)
        if value is None:
            continue
        if earlier is None or earlier.value is not value:
            kept = value if isinstance(value, str) else None  # of a list only its texts
            is_system = name in ("system", "instructions")
            part, role = (Part.SYSTEM, "") if is_system else (Part.MESSAGES, "user")
            segments = content_of(f"/{name}", value, part, role)
            earlier = piece_of(kept, part, segments, earlier)
        found[name] = earlier
    return found


def _tools(document: Document, tools: Container | None, known: Made) -> Piece:
    """Each tool as the request spells it: a tenth of the cost of printing it anew."""
    if tools is None or tools.keys is not None:
        return _NO_TOOLS
    olds = known.tools.values if known.tools is not None else []
    segments: list[Segment] = []
    for number, tool in enumerate(tools.values):
        if number < len(olds) and olds[number] is tool and isinstance(tool, dict):
            segments.append(known.tool_piece.segments[number])
            continue
        entry = document.entry(("tools", number))
        has_mark = isinstance(tool, dict) and "cache_control" in tool
        text = _without_breakpoint(document, entry) if has_mark else document.text(entry)
        segments.append(Segment(Part.TOOLS, f"/tools/{number}", text))
    names, spelled = names_of(tools.values), document.spelled("tools")
    return piece_of(tools, Part.TOOLS, segments, known.tool_piece, names=names, spelled=spelled)


def _without_breakpoint(document: Document, tool: Entry) -> str:
    """The tool as it would be spelled without its ``cache_control``, commas and spaces alike."""
    body = document.body
    members = document.siblings(("tools", tool.key, "cache_control"))
    kept = [body[one.start : one.end] for one in members if one.key != "cache_control"]
    comma = body[members[0].end : members[1].start] if len(members) > 1 else b""
    head, tail = body[tool.value_start : members[0].start], body[members[-1].end : tool.end]
    return (head + comma.join(kept) + tail).decode()


def _items(
    document: Document, name: str, container: Container, known: Made, *, at_head: bool
) -> tuple[Piece, ...]:
    """Messages, or the Responses API's other items; those that are the very same are known."""
    items = container.values
    if items is known.items:
        return known.item_pieces
    same = list(map(is_, items, known.items))
    count = same.index(False) if False in same else len(same)
    pieces = list(known.item_pieces[:count])
    at_head = at_head and (not pieces or pieces[-1].part is Part.SYSTEM)
    for number in range(count, len(items)):
        item = items[number]
        role = item.get("role") if isinstance(item, dict) else None
        role = role if isinstance(role, str) else ""
        # Templates take leading system messages for the system text; later ones stay in place.
        at_head = at_head and role in ("system", "developer")
        part = Part.SYSTEM if at_head else Part.MESSAGES
        earlier = known.item_pieces[number] if number < len(same) else None
        if earlier is None or not same[number] or earlier.part is not part:
            segments = item_of(f"/{name}/{number}", item, part, role)
            entry = document.entry((name, number))
            spelled = document.body[entry.value_start : entry.end]
            earlier = piece_of(item, part, segments, earlier, spelled=spelled)
        pieces.append(earlier)
    return tuple(pieces)


def _gemini(body: dict[str, Any]) -> Made:
    texts = list(gemini_texts(body))
    by_part = {
        part.value: piece_of(None, part, [text for text in texts if text.part is part])
        for part in (Part.SYSTEM, Part.MESSAGES)
    }
    declared = list(gemini_tools(body))
    names = names_of(json.loads(tool.text) for tool in declared)
    tools = piece_of(None, Part.TOOLS, declared, names=names)
    return Made("", None, tools, by_part, [], ())
