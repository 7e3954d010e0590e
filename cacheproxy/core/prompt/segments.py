"""The pieces of a prompt: a message, a tool or a system text as compared text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, count
from operator import attrgetter, is_not
from sys import getsizeof
from typing import Any, NamedTuple

from cacheproxy.core.dialects.content import THOUGHT_ENDS, Part, Segment
from cacheproxy.core.document.compare import alike

EACH_SEGMENT = 400
"""Bytes that Python adds to the texts themselves, as measured."""


def is_same_call(one: Segment, other: Segment) -> bool:
    """Whether both are the same tool call of the model, its arguments spelled in another way."""
    if not (one.source == other.source == "model" and other.text.startswith("{")):
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
    is_answer: bool = False  #: whether the model says it


def piece_of(part: Part, segments: Iterable[Segment], names: frozenset[str] = frozenset()) -> Piece:
    """Return ``segments`` as a piece."""
    found, digests, thinking = tuple(segments), list[int](), 0
    texts = [*map(_TEXT, found)]
    cost = sum(map(getsizeof, texts)) + EACH_SEGMENT * len(texts)
    if part is Part.MESSAGES:
        for _, path, text, _, _ in found:
            if not path.endswith("/role"):
                digests.append(hash(text))
    for _, path, text, role, _ in compress(found, map("model".__eq__, map(_SOURCE, found))):
        # Reasoning is a text of its own, or an item of the Responses API.
        if role == "reasoning" or path.endswith(THOUGHT_ENDS):
            thinking += len(text)
    is_answer = bool(found) and found[-1].source == "model"
    return Piece(
        part, found, sum(map(len, texts)), cost, tuple(digests), names, thinking, is_answer
    )


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
        digests = len(self.digests) - sum(map(len, map(_DIGESTS, gone)))
        return PieceRun(
            self.pieces[:count],
            self.chars - sum(map(_CHARS, gone)),
            self.cost - sum(map(_COST, gone)),
            self.digests[:digests],
            self.thinking - sum(map(_THINKING, gone)),
        )


_TEXT, _SOURCE = attrgetter("text"), attrgetter("source")
_CHARS, _COST, _DIGESTS, _THINKING = map(attrgetter, ("chars", "cost", "digests", "thinking"))


def unlike(ours: tuple[Piece, ...], theirs: tuple[Piece, ...]) -> Iterator[int]:
    """Return where pieces in the same place are not the very same, in order; nowhere if all equal.

    To ask of 10,000 which are others takes 0.25 ms, and a request does so ten times; whether all
    are equal, as nearly always, takes 0.03 ms.
    """
    most = min(len(ours), len(theirs))
    if ours[:most] == theirs[:most]:
        return iter(())
    return compress(count(), map(is_not, ours, theirs))


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
