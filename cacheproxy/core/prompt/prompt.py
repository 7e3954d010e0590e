"""A body as the ordered segments a chat template would render: tools, system, messages.

Two requests with equal segments are equal to the server, however their JSON is spelled: cache
breakpoints (``cache_control``) are not part of a prompt, and a string equals a list of one text
block. Key order inside a tool is part of the prompt: templates print tools as JSON.
"""

from __future__ import annotations

import json
from enum import StrEnum
from itertools import accumulate, chain, repeat
from operator import attrgetter, sub, truediv
from typing import NamedTuple

from cacheproxy.core.dialects.content import SYSTEM_ROLES, Part, Segment, content_of, item_of
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.dialects import captured_dialect
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.spans import Container, Item
from cacheproxy.core.prompt.request import Once, Request
from cacheproxy.core.prompt.segments import Piece, PieceRun, names_of, piece_of


class PromptOrder(StrEnum):
    """The part that a chat template prints first, which determines the cost of a change.

    ``HOISTED``: system text first, with late system messages moved to it.
    """

    TOOLS_FIRST = "tools first"
    SYSTEM_FIRST = "system first"
    HOISTED = "hoisted"


class Made(NamedTuple):
    """The pieces that a prompt is made of."""

    tool_piece: Piece  #: the definitions of tools
    texts: dict[str, Piece]
    """System text and user text outside the messages, by the names of their members."""
    run: PieceRun  #: a piece for each message
    heads: int = 0  #: number of leading messages that are system text


_NO_TOOLS = Piece(Part.TOOLS)
_EMPTY = PieceRun()
_CHARS, _SEGMENTS, _SOURCE = map(attrgetter, ("chars", "segments", "source"))


class Prompt:
    """A whole prompt, in the order of the template. ``model``: the one that the request names.

    ``pieces``: one for each value of the body; ``chars``: characters of all texts; ``cost``: bytes
    of memory, roughly; ``digests``: a number for each text of the messages; ``thinking``:
    characters of reasoning; ``made``: the pieces for the next turn; ``order``: of the parts;
    ``head``: the leading system text; ``tools``: the names of the tools.
    Never altered. Two prompts are equal if they have the same model and equal segments.
    """

    def __init__(
        self, model: str, made: Made, order: PromptOrder = PromptOrder.TOOLS_FIRST
    ) -> None:
        self.model, self.order, self.made = model, order, made
        if order is PromptOrder.HOISTED:
            made = hoisted(made)
        tool_piece, texts, run, heads = made
        _, chars, cost, digests, thinking = run
        system: list[Piece] = []
        rest: list[Piece] = []
        for text in reversed(texts.values()):
            (system if text.part is Part.SYSTEM else rest).insert(0, text)
            chars += text.chars
            cost += text.cost
            digests = text.digests + digests
            thinking += text.thinking
        self.chars, self.cost = tool_piece.chars + chars, tool_piece.cost + cost
        self.digests, self.thinking = digests, thinking
        self.head = head = (*system, *run.pieces[:heads])
        self.tools = tool_piece.names
        if order is PromptOrder.TOOLS_FIRST:
            self.pieces = (tool_piece, *head, *rest) + run.pieces[heads:]  # noqa: RUF005 - one copy
        else:
            self.pieces = (*head, tool_piece, *rest) + run.pieces[heads:]  # noqa: RUF005

    @Once
    def segments(self) -> tuple[Segment, ...]:
        """The segments of all pieces; only comparisons within texts need them."""
        return tuple(chain.from_iterable(map(_SEGMENTS, self.pieces)))

    def of(self, part: Part) -> tuple[Segment, ...]:
        """Return the segments of the leading tools or system text."""
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
    """Return the prompt of ``request``, or None if it has none that is understood.

    The piece of a message is remembered with it: a turn costs only its new messages.
    """
    document = request.document
    if document is None:
        return None
    if "prompt" not in document.notes:
        document.notes["prompt"] = _prompt_of(request, document)
    prompt: Prompt | None = document.notes["prompt"]
    return prompt if prompt is None or prompt.order is order else reordered(prompt, order)


def _prompt_of(request: Request, document: Document) -> Prompt | None:
    dialect = request.dialect or captured_dialect(request.path)
    if dialect is None:
        return None
    model = document.value.get("model")
    prompt = Prompt(model if isinstance(model, str) else "", _made(dialect, document))
    return prompt if any(map(_SEGMENTS, prompt.pieces)) else None


def reordered(prompt: Prompt, order: PromptOrder) -> Prompt:
    """Return ``prompt`` in the order of a template with ``order``."""
    return prompt if prompt.order is order else Prompt(prompt.model, prompt.made, order)


def remade(prompt: Prompt, made: Made) -> Prompt:
    """Return ``prompt``, in its order, with other pieces: ``made``."""
    return Prompt(prompt.model, made, prompt.order)


def is_late(piece: Piece) -> bool:
    """Whether ``piece`` is a late system message: one among the others."""
    is_system = bool(piece.segments) and piece.segments[0].role in SYSTEM_ROLES
    return is_system and piece.part is Part.MESSAGES


def hoisted(made: Made) -> Made:
    """Return ``made`` with late system messages moved behind the system text at the head."""
    late: list[Piece] = []
    rest: list[Piece] = []
    for piece in made.run.pieces[made.heads :]:  # inline: a call for each of many messages is slow
        is_system = piece.segments and piece.segments[0].role in SYSTEM_ROLES
        (late if is_system and piece.part is Part.MESSAGES else rest).append(piece)
    if not late:
        return made
    run = PieceRun().then((*made.run.pieces[: made.heads], *map(_in_system, late), *rest))
    return made._replace(run=run, heads=made.heads + len(late))


def _in_system(piece: Piece) -> Piece:
    """Return ``piece`` as a part of the system text."""
    segments = tuple(segment._replace(part=Part.SYSTEM) for segment in piece.segments)
    return piece._replace(part=Part.SYSTEM, segments=segments)


def _made(dialect: Dialect, document: Document) -> Made:
    if dialect.as_segments is not None:
        return _read_whole(dialect.as_segments(document.value))
    tools = items = None
    names, name = dialect.texts, dialect.items
    if name:  # in other dialects no template prints tools
        tools, items = document.array("tools"), document.array(name)
        if items is None and isinstance(document.value.get(name), str):
            names += (name,)
    texts: dict[str, Piece] = {}
    for text in names:
        if document.value.get(text) is not None:
            part, piece = document.items.get(text), None
            if isinstance(part, Container):
                piece = part.notes.get(text)
            elif part is not None and part.note is not None and part.note[0] == text:
                piece = part.note[1]
            texts[text] = piece or _text(dialect, document, text, part)
    tool_piece = _NO_TOOLS
    if tools is not None:
        tool_piece = tools.notes.get("tools") or _tools(document, tools)
    run, heads = (_EMPTY, 0) if items is None else items.notes.get(dialect.name, (None, 0))
    if run is None and items is not None:
        run, heads = _items(dialect, items)
    return Made(tool_piece, texts, run, heads)


def _text(dialect: Dialect, document: Document, name: str, part: Item | None) -> Piece:
    """Return the piece of a text outside the messages, in the member ``name``."""
    is_system = name in (dialect.head, "system")
    kind, role = (Part.SYSTEM, "") if is_system else (Part.MESSAGES, "user")
    piece = piece_of(kind, content_of(f"/{name}", document.value[name], kind, role))
    if isinstance(part, Container):
        part.notes[name] = piece
    elif part is not None:
        part.note = name, piece
    return piece


def _tools(document: Document, tools: Container) -> Piece:
    """Return the piece of the tools as spelled in the request: a tenth of the cost of encoding."""
    segments: list[Segment] = []
    for number, (tool, item) in enumerate(zip(tools.values, tools.items, strict=True)):
        is_marked = isinstance(tool, dict) and "cache_control" in tool
        text = _without_breakpoint(document, number) if is_marked else item.spelled.decode()
        segments.append(Segment(Part.TOOLS, f"/tools/{number}", text))
    piece = tools.notes["tools"] = piece_of(Part.TOOLS, segments, names_of(tools.values))
    return piece


def _without_breakpoint(document: Document, number: int) -> str:
    """Return a tool's spelling without its ``cache_control``, commas and spaces unchanged."""
    body, tool = document.body, document.entry(("tools", number))
    members = document.siblings(("tools", number, "cache_control"))
    kept = [body[one.start : one.end] for one in members if one.key != "cache_control"]
    comma = body[members[0].end : members[1].start] if len(members) > 1 else b""
    head, tail = body[tool.value_start : members[0].start], body[members[-1].end : tool.end]
    return (head + comma.join(kept) + tail).decode()


def _items(dialect: Dialect, array: Container) -> tuple[PieceRun, int]:
    """Return the pieces of the messages (or Responses items), and the number that is system text.

    Templates take leading system messages for system text; later ones stay in place. The pieces
    that the array shares with the one before are known.
    """
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
    """The tokens of each part, which add up to those of the prompt."""

    tools: int  #: tokens of the tools' definitions
    system: int  #: tokens of the system text
    history: int  #: tokens of earlier messages, without the reasoning in them
    thinking: int  #: tokens of the reasoning in earlier messages
    newest: int
    """Tokens behind the model's last message: the user's message, or results of tools."""
    order: PromptOrder  #: order in which the prompt is rendered


def parts_of(
    prompt: Prompt, tokens: int, *, drops_thinking: bool = False, hides_thinking: bool = False
) -> Parts:
    """Return the parts of ``prompt`` with their shares of ``tokens``, the server's count.

    ``drops_thinking``: whether the template leaves out the reasoning before the last message of
    the user, ``hides_thinking``: whether it leaves out all of it.
    """
    tools, system = prompt.made.tool_piece.chars, sum(map(_CHARS, prompt.head))
    newest = behind = 0
    for piece in reversed(prompt.pieces):
        if piece.part is not Part.MESSAGES or piece.is_answer:
            break
        newest += piece.chars
    for piece in reversed(prompt.pieces) if drops_thinking else ():
        if "user" in map(_SOURCE, piece.segments):
            break
        behind += piece.thinking  # reasoning behind the last message of the user
    history = prompt.chars - tools - system - newest - prompt.thinking
    thinking = 0 if hides_thinking else prompt.thinking
    if drops_thinking:
        thinking = behind
    sizes = (tools, system, history, thinking, newest)
    shares = map(truediv, map(tokens.__mul__, accumulate(sizes)), repeat(sum(sizes) or 1))
    ends = [*map(round, shares)]
    ends[-1] = tokens  # whole numbers in their proportion, which add up to it
    return Parts._make((*map(sub, ends, (0, *ends)), prompt.order))
