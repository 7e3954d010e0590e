"""A body as the ordered segments a chat template would render: tools, system, messages.

Two requests whose segments read alike are alike to the server, however their JSON is spelt:
cache breakpoints (``cache_control``) are no part of a prompt, and a text is the same whether it
stands as a string or as one text block. Key order inside a tool is part of it: templates print
tools as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from itertools import chain, compress, count
from operator import attrgetter, is_, is_not
from typing import Any, NamedTuple

from cacheproxy.core.document.document import Document
from cacheproxy.core.document.lazy import Once
from cacheproxy.core.document.spans import Container, Entry
from cacheproxy.core.prompt import dialect
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.prompt.segments import (
    Part,
    Piece,
    Run,
    Segment,
    content_of,
    gemini_texts,
    gemini_tools,
    is_gemini,
    item_of,
    names_of,
    piece_of,
    plain,
    retold,
)

__all__ = [
    "Order",
    "Part",
    "Prompt",
    "Segment",
    "first_item",
    "is_late",
    "prompt_of",
    "remade",
    "reordered",
]


class Order(StrEnum):
    """What a chat template prints first. It decides what a change costs.

    ``HOISTED``: system first, and system messages that come late in the list moved there, too.
    """

    TOOLS_FIRST = "tools first"
    SYSTEM_FIRST = "system first"
    HOISTED = "hoisted"


class Made(NamedTuple):
    """What a prompt was made of, and what became of it: ``run`` has a piece for each item.

    ``heads``: how many of the items stand first and are system text.
    """

    spoken: str
    tools: Container | None
    tool_piece: Piece
    texts: dict[str, Piece]
    items: list[Any]
    run: Run
    heads: int = 0


_NO_TOOLS = Piece(None, Part.TOOLS)
_EMPTY = Run()
_NOTHING = Made("", None, _NO_TOOLS, {}, [], _EMPTY)
_SEGMENTS = attrgetter("segments")
_SYSTEM_ROLES = ("system", "developer")


class Prompt:
    """A whole prompt, in the order of the template. ``model`` as the request names it.

    ``pieces``: by the values they were made of; ``chars``: of all their texts; ``cost``: bytes
    that keeping it takes, roughly; ``digests``: a number for each text of the messages; ``made``:
    for the next turn; ``order``: of its parts. Never altered. Two are equal if they name the same
    model and read alike, segment by segment.
    """

    def __init__(
        self,
        model: str,
        run: Run,
        made: Made = _NOTHING,
        order: Order = Order.TOOLS_FIRST,
    ) -> None:
        self.model = model
        self.order = order
        self.pieces, self.chars, self.cost, self.digests = run
        self.made = made

    @Once
    def segments(self) -> tuple[Segment, ...]:
        """The segments of all pieces: put together only where parts of texts are asked for."""
        return tuple(chain.from_iterable(map(_SEGMENTS, self.pieces)))

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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prompt):
            return NotImplemented
        return self.model == other.model and self.segments == other.segments

    def __hash__(self) -> int:
        return hash((self.model, self.segments))


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
    run = _in_order(made, order)
    if not any(map(_SEGMENTS, run.pieces)):
        return None
    model = document.value.get("model")
    return Prompt(model if isinstance(model, str) else "", run, made, order)


def reordered(prompt: Prompt, order: Order) -> Prompt:
    """Return ``prompt`` as a template prints it that has ``order``."""
    if prompt.order is order:
        return prompt
    return Prompt(prompt.model, _in_order(prompt.made, order), prompt.made, order)


def remade(prompt: Prompt, made: Made) -> Prompt:
    """Return ``prompt``, in its order, as if it had been ``made`` of something else."""
    return Prompt(prompt.model, _in_order(made, prompt.order), made, prompt.order)


def _in_order(made: Made, order: Order) -> Run:
    """All pieces: those of the items, and those that stand outside them in their places."""
    texts, run, heads = list(made.texts.values()), made.run, made.heads
    system = [text for text in texts if text.part is Part.SYSTEM]
    rest = texts[len(system) :]  # what is system text has been looked for first
    head = (*system, *run.pieces[:heads])
    head = (made.tool_piece, *head) if order is Order.TOOLS_FIRST else (*head, made.tool_piece)
    later = run.pieces[heads:]
    if order is Order.HOISTED:
        moved = tuple(in_system(piece) for piece in later if is_late(piece))
        head = (*head[:-1], *moved, made.tool_piece)
        later = tuple(piece for piece in later if not is_late(piece))
    pieces = (*head, *rest, *later)
    _, chars, cost, digests = _EMPTY.then((made.tool_piece, *texts))
    return Run(pieces, chars + run.chars, cost + run.cost, digests + run.digests)


def is_late(piece: Piece) -> bool:
    """Whether it is a system message that stands among the others."""
    is_system = bool(piece.segments) and piece.segments[0].role in _SYSTEM_ROLES
    return is_system and piece.part is Part.MESSAGES


def in_system(piece: Piece) -> Piece:
    """Return ``piece`` as a part of the system text."""
    segments = tuple(segment._replace(part=Part.SYSTEM) for segment in piece.segments)
    return piece._replace(part=Part.SYSTEM, segments=segments)


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
        return Made(spoken, None, _NO_TOOLS, _texts(body, known, ("prompt",)), [], _EMPTY)
    name = _items_name(spoken)
    inner = dict(zip(document.root.keys or (), document.root.inner, strict=False))
    tools, items = inner.get("tools"), inner.get(name)
    if tools is None or tools is not known.tools:
        tool_piece = _tools(document, tools, known)
    else:
        tool_piece = known.tool_piece
    names: tuple[str, ...] = ("system", "instructions")
    if isinstance(body.get("prompt"), str):
        names += ("prompt",)
    if isinstance(body.get(name), str):
        names += (name,)
    texts = _texts(body, known, names)
    if items is None or items.keys is not None or not items.values:
        return Made(spoken, tools, tool_piece, texts, [], _EMPTY)
    if items.values is known.items:
        return Made(spoken, tools, tool_piece, texts, known.items, known.run, known.heads)
    run, heads = _items(spoken, document, items, known)
    return Made(spoken, tools, tool_piece, texts, items.values, run, heads)


def _texts(body: dict[str, Any], known: Made, names: Iterable[str]) -> dict[str, Piece]:
    """Texts that stand outside the messages, by the names of their members."""
    return {
        name: _text(name, value, known.texts.get(name))
        for name in names
        if (value := body.get(name)) is not None
    }


def _text(name: str, value: Any, earlier: Piece | None) -> Piece:
    texts = plain(value)
    if earlier is not None and texts is not None:
        if earlier.value == texts:
            return earlier
        as_many = isinstance(earlier.value, tuple) and len(earlier.value) == len(texts)
        if as_many and isinstance(texts, tuple):
            return retold(earlier, texts)
    is_system = name in ("system", "instructions")
    part, role = (Part.SYSTEM, "") if is_system else (Part.MESSAGES, "user")
    return piece_of(texts, part, content_of(f"/{name}", value, part, role), earlier)


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


def _items(spoken: str, document: Document, container: Container, known: Made) -> tuple[Run, int]:
    """Messages, or the Responses API's other items; those that are the very same are known.

    Returned with how many of them are system text: templates take leading system messages for
    that, later ones stay in place.
    """
    name, items, olds = _items_name(spoken), container.values, known.run.pieces
    start = document.entry((name,)).value_start
    pieces = list(olds[: len(items)])
    is_same = all(map(is_, items, known.items))  # the rule, and told three times as fast
    changed = [] if is_same else list(compress(count(), map(is_not, items, known.items)))
    for number in chain(changed, range(len(pieces), len(items))):
        item = items[number]
        role = item.get("role") if isinstance(item, dict) else None
        role = role if isinstance(role, str) else ""
        leads = number == 0 or pieces[number - 1].part is Part.SYSTEM
        is_head = leads and spoken != dialect.ANTHROPIC and role in _SYSTEM_ROLES
        part = Part.SYSTEM if is_head else Part.MESSAGES
        earlier = pieces[number] if number < len(pieces) else None
        if earlier is not None and earlier.part is not part:  # those behind may change theirs, too
            return _items(spoken, document, container, _NOTHING)
        spelled = document.body[start + container.starts[number] : start + container.ends[number]]
        segments = item_of(f"/{name}/{number}", item, part, role)
        pieces[number : number + 1] = [piece_of(item, part, segments, earlier, spelled=spelled)]
    heads = 0
    while heads < len(pieces) and pieces[heads].part is Part.SYSTEM:
        heads += 1
    if changed or len(items) < len(olds):
        return _EMPTY.then(pieces), heads
    return known.run.then(pieces[len(olds) :]), heads


def _gemini(body: dict[str, Any]) -> Made:
    texts = list(gemini_texts(body))
    by_part = {
        part.value: piece_of(None, part, [text for text in texts if text.part is part])
        for part in (Part.SYSTEM, Part.MESSAGES)
    }
    declared = list(gemini_tools(body))
    names = names_of(json.loads(tool.text) for tool in declared)
    tools = piece_of(None, Part.TOOLS, declared, names=names)
    return Made("", None, tools, by_part, [], _EMPTY)
