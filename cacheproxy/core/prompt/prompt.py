"""A body as the ordered segments a chat template would render: tools, system, messages.

Two requests with equal segments are equal to the server, however their JSON is spelled: cache
breakpoints (``cache_control``) are not part of a prompt, and a string equals a list of one text
block. Key order inside a tool is part of the prompt: templates print tools as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from itertools import chain, takewhile
from operator import attrgetter
from typing import NamedTuple

from cacheproxy.core.dialects.content import SYSTEM_ROLES, Part, Segment, content_of, item_of
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.dialects import captured_dialect
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.spans import Container, SpelledValue
from cacheproxy.core.prompt.request import Once, Request
from cacheproxy.core.prompt.segments import Piece, PieceRun, names_of, piece_of


class PromptOrder(StrEnum):
    """What a chat template prints first. It decides what a change costs.

    ``HOISTED``: system first, and system messages that come late in the list moved there, too.
    """

    TOOLS_FIRST = "tools first"
    SYSTEM_FIRST = "system first"
    HOISTED = "hoisted"


class Made(NamedTuple):
    """What a prompt was made of."""

    tool_piece: Piece  #: the definitions of tools
    texts: dict[str, Piece]
    """System text and user text beside the messages, by the names of their members."""
    run: PieceRun  #: a piece for each message
    heads: int = 0  #: how many of the messages stand first and are system text


_NO_TOOLS = Piece(Part.TOOLS)
_EMPTY = PieceRun()
_NOTHING = Made(_NO_TOOLS, {}, _EMPTY)
_SEGMENTS = attrgetter("segments")


class Prompt:
    """A whole prompt, in the order of the template. ``model`` as the request names it.

    ``pieces``: by the values they were made of; ``chars``: of all their texts; ``cost``: bytes
    that keeping it takes, roughly; ``digests``: a number for each text of the messages;
    ``thinking``: characters of reasoning; ``made``: for the next turn; ``order``: of its parts.
    Never altered. Two are equal if they name the same model and read alike, segment by segment.
    """

    def __init__(
        self,
        model: str,
        run: PieceRun,
        made: Made = _NOTHING,
        order: PromptOrder = PromptOrder.TOOLS_FIRST,
    ) -> None:
        self.model = model
        self.order = order
        self.pieces, self.chars, self.cost, self.digests, self.thinking = run
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prompt):
            return NotImplemented
        return self.model == other.model and self.segments == other.segments

    def __hash__(self) -> int:
        return hash((self.model, self.segments))


def prompt_of(request: Request, order: PromptOrder = PromptOrder.TOOLS_FIRST) -> Prompt | None:
    """Return the prompt of ``request``, or None if it has none that we can read.

    What a message reads as is remembered with it: a turn costs what is new in it.
    """
    document = request.document
    if document is None:
        return None
    if "prompt" not in document.notes:
        document.notes["prompt"] = _prompt_of(request, document)
    prompt: Prompt | None = document.notes["prompt"]
    return None if prompt is None else reordered(prompt, order)


def _prompt_of(request: Request, document: Document) -> Prompt | None:
    dialect = request.dialect or captured_dialect(request.path)
    if dialect is None:
        return None
    made = _made(dialect, document)
    run = _in_order(made, PromptOrder.TOOLS_FIRST)
    if not any(map(_SEGMENTS, run.pieces)):
        return None
    model = document.value.get("model")
    return Prompt(model if isinstance(model, str) else "", run, made)


def reordered(prompt: Prompt, order: PromptOrder) -> Prompt:
    """Return ``prompt`` as a template prints it that has ``order``."""
    if prompt.order is order:
        return prompt
    return Prompt(prompt.model, _in_order(prompt.made, order), prompt.made, order)


def remade(prompt: Prompt, made: Made) -> Prompt:
    """Return ``prompt``, in its order, as if it had been ``made`` of something else."""
    return Prompt(prompt.model, _in_order(made, prompt.order), made, prompt.order)


def _in_order(made: Made, order: PromptOrder) -> PieceRun:
    """All pieces: those of the items, and those that stand outside them in their places."""
    if order is PromptOrder.HOISTED:
        made = hoisted(made)
    texts, run, heads = list(made.texts.values()), made.run, made.heads
    system = [text for text in texts if text.part is Part.SYSTEM]
    rest = texts[len(system) :]  # what is system text has been looked for first
    head = (*system, *run.pieces[:heads])
    head = (
        (made.tool_piece, *head) if order is PromptOrder.TOOLS_FIRST else (*head, made.tool_piece)
    )
    pieces = (*head, *rest, *run.pieces[heads:])
    _, chars, cost, digests, thinking = _EMPTY.then((made.tool_piece, *texts))
    digests += run.digests
    return PieceRun(pieces, chars + run.chars, cost + run.cost, digests, thinking + run.thinking)


def is_late(piece: Piece) -> bool:
    """Whether it is a system message that stands among the others."""
    is_system = bool(piece.segments) and piece.segments[0].role in SYSTEM_ROLES
    return is_system and piece.part is Part.MESSAGES


def hoisted(made: Made) -> Made:
    """Return it with late system messages behind the system text at the head; itself, if none."""
    later = made.run.pieces[made.heads :]
    late = [_in_system(piece) for piece in later if is_late(piece)]
    if not late:
        return made
    rest = [piece for piece in later if not is_late(piece)]
    run = PieceRun().then((*made.run.pieces[: made.heads], *late, *rest))
    return made._replace(run=run, heads=made.heads + len(late))


def _in_system(piece: Piece) -> Piece:
    """Return ``piece`` as a part of the system text."""
    segments = tuple(segment._replace(part=Part.SYSTEM) for segment in piece.segments)
    return piece._replace(part=Part.SYSTEM, segments=segments)


def _made(dialect: Dialect, document: Document) -> Made:
    if dialect.as_segments is not None:
        return _read_whole(dialect.as_segments(document.value))
    if not dialect.items:  # no template prints its tools
        return Made(_NO_TOOLS, _texts(dialect, document, dialect.texts), _EMPTY)
    name = dialect.items
    names = (dialect.head, *dialect.texts) if dialect.head else dialect.texts
    if isinstance(document.value.get(name), str):
        names += (name,)
    tools, items = document.array("tools"), document.array(name)
    tool_piece = _NO_TOOLS if tools is None else _tools(document, tools)
    texts = _texts(dialect, document, names)
    if items is None:
        return Made(tool_piece, texts, _EMPTY)
    return Made(tool_piece, texts, *_items(dialect, items))


def _texts(dialect: Dialect, document: Document, names: Iterable[str]) -> dict[str, Piece]:
    """Texts that stand outside the messages, by the names of their members."""
    return {
        name: _text(document, name, is_system=name in (dialect.head, "system"))
        for name in names
        if document.value.get(name) is not None
    }


def _text(document: Document, name: str, *, is_system: bool) -> Piece:
    part = document.part(name)
    if isinstance(part, Container) and name in part.notes:
        return part.notes[name]  # type: ignore[no-any-return]
    if isinstance(part, SpelledValue) and part.note is not None and part.note[0] == name:
        return part.note[1]  # type: ignore[no-any-return]
    kind, role = (Part.SYSTEM, "") if is_system else (Part.MESSAGES, "user")
    piece = piece_of(kind, content_of(f"/{name}", document.value[name], kind, role))
    if isinstance(part, Container):
        part.notes[name] = piece
    elif isinstance(part, SpelledValue):
        part.note = name, piece
    return piece


def _tools(document: Document, tools: Container) -> Piece:
    """Each tool as the request spells it: a tenth of the cost of printing it anew."""
    if "tools" not in tools.notes:
        texts = [
            _without_breakpoint(document, number)
            if isinstance(tool, dict) and "cache_control" in tool
            else tools.items[number].spelled.decode()
            for number, tool in enumerate(tools.values)
        ]
        segments = [Segment(Part.TOOLS, f"/tools/{at}", text) for at, text in enumerate(texts)]
        tools.notes["tools"] = piece_of(Part.TOOLS, segments, names_of(tools.values))
    return tools.notes["tools"]  # type: ignore[no-any-return]


def _without_breakpoint(document: Document, number: int) -> str:
    """The tool as it would be spelled without its ``cache_control``, commas and spaces alike."""
    body, tool = document.body, document.entry(("tools", number))
    members = document.siblings(("tools", number, "cache_control"))
    kept = [body[one.start : one.end] for one in members if one.key != "cache_control"]
    comma = body[members[0].end : members[1].start] if len(members) > 1 else b""
    head, tail = body[tool.value_start : members[0].start], body[members[-1].end : tool.end]
    return (head + comma.join(kept) + tail).decode()


def _items(dialect: Dialect, array: Container) -> tuple[PieceRun, int]:
    """Messages, or the Responses API's other items; those of the array before are known.

    Returned with how many of them are system text: templates take leading system messages for
    that, later ones stay in place.
    """
    if dialect.name in array.notes:
        return array.notes[dialect.name]  # type: ignore[no-any-return]
    notes, count = array.before
    run, heads = notes.get(dialect.name, (_EMPTY, 0))
    name, leads = dialect.items, dialect.leads
    run, heads = run.first(count), min(heads, count)
    pieces: list[Piece] = []
    for number in range(len(run.pieces), len(array.items)):
        item, value = array.items[number], array.values[number]
        role = value.get("role") if isinstance(value, dict) else None
        role = role if isinstance(role, str) else ""
        part = Part.MESSAGES
        if heads == number and leads and role in SYSTEM_ROLES:
            part, heads = Part.SYSTEM, heads + 1
        key = (name, number, part)
        if item.note is None or item.note[0] != key:
            item.note = key, piece_of(part, item_of(f"/{name}/{number}", value, part, role))
        pieces.append(item.note[1])
    array.notes[dialect.name] = found = run.then(pieces), heads
    return found


def _read_whole(segments: list[Segment]) -> Made:
    tools, system, messages = ([one for one in segments if one.part is part] for part in Part)
    texts = {
        part.value: piece_of(part, found)
        for part, found in ((Part.SYSTEM, system), (Part.MESSAGES, messages))
    }
    names = names_of(json.loads(tool.text) for tool in tools)
    return Made(piece_of(Part.TOOLS, tools, names), texts, _EMPTY)


class Parts(NamedTuple):
    """Tokens of each part; together they are all of the prompt."""

    tools: int  #: their definitions
    system: int  #: system text
    history: int  #: earlier messages without the reasoning in them
    thinking: int  #: the reasoning in earlier messages
    newest: int
    """What stands behind the model's last words: the user's message, or results of tools."""
    order: PromptOrder  #: as it is rendered


def parts_of(
    prompt: Prompt, tokens: int, *, drops_thinking: bool = False, hides_thinking: bool = False
) -> Parts:
    """Return what the ``tokens`` of ``prompt``, as the server counted them, are made of.

    ``drops_thinking``: whether the template leaves out the reasoning before the last message of
    the user, ``hides_thinking``: whether it leaves out all of it.
    """
    tools = system = 0
    for piece in prompt.pieces:
        if piece.part is Part.MESSAGES:
            break
        if piece.part is Part.TOOLS:
            tools += piece.chars
        else:
            system += piece.chars
    newest = sum(piece.chars for piece in takewhile(_is_new, reversed(prompt.pieces)))
    history = prompt.chars - tools - system - newest - prompt.thinking
    thinking = 0 if hides_thinking else prompt.thinking
    if drops_thinking:
        # The characters of reasoning behind the last message of the user.
        last = takewhile(lambda piece: not _is_users(piece), reversed(prompt.pieces))
        thinking = sum(piece.thinking for piece in last)
    sizes = (tools, system, history, thinking, newest)
    return Parts._make((*_shared_out(tokens, sizes), prompt.order))


def _is_new(piece: Piece) -> bool:
    is_models = bool(piece.segments) and piece.segments[-1].source == "model"
    return piece.part is Part.MESSAGES and not is_models


def _is_users(piece: Piece) -> bool:
    return any(segment.source == "user" for segment in piece.segments)


def _shared_out(tokens: int, sizes: tuple[int, ...]) -> list[int]:
    """Return whole numbers in the proportion of ``sizes`` that add up to ``tokens``."""
    total, upto, given = sum(sizes) or 1, 0, 0
    shares: list[int] = []
    for size in sizes:
        upto += size
        share = round(tokens * upto / total) - given
        given += share
        shares.append(share)
    shares[-1] += tokens - given
    return shares
