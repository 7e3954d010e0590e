"""The lines in which a broken turn diverges from the turn before, for a user who requests them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, dropwhile, islice
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.dialects.content import Segment
from cacheproxy.core.diff.text import hunks
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder, prompt_of

_ONWARD = 8000
"""Characters compared behind the difference: more than are shown."""
_LONGEST = 1000
"""Characters behind those in which a credential may end: one cut short may not be recognized."""

_MOST_SEGMENTS = 1000
_BEFORE, _AFTER = 2, 4
"""Lines shown before the line of the difference, and from it on."""
_LOOKED_AT = 40
"""Lines compared: more than are shown, so that no line is marked that only moved."""
WIDEST = 400
"""Characters shown of a line, at most."""
_LEFT = 160
"""Characters shown before the difference in its own line, at most."""
CUT = "…"

_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Texts:
    """The lines around the first difference."""

    was: tuple[DiffLine, ...]  #: lines of the turn before
    now: tuple[DiffLine, ...]  #: lines of the broken turn


def texts_of(pair: Pair, order: PromptOrder) -> Texts | None:
    """Return the lines around the first difference of the prompts of ``pair``, None if equal.

    Credentials are hidden. Prompts of 2 MB take some ten milliseconds.
    """
    before, after = prompt_of(pair.before, order), prompt_of(pair.after, order)
    if before is None or after is None:
        return None
    left = parting(before, after)
    if left.was is None and left.now is None:
        return None
    known = frozenset(
        chain.from_iterable(
            carried(request.headers, request.target) for request in (pair.before, pair.after)
        )
    )
    same = min(left.was_at, left.now_at)  # the segments may diverge at different offsets
    was = _from(before, left.was, left.was_at, same, known)
    return quoted(was, _from(after, left.now, left.now_at, same, known))


def quoted(was: str, now: str) -> Texts | None:
    """Return the lines around the first difference of two excerpts, None if they are equal.

    Excerpts that differ only in a (hidden) credential are equal.
    """
    if was == now:
        return None
    left, right = side_by_side(was, now, common_prefix(was, now))
    return Texts(tuple(left), tuple(right))


def _from(
    prompt: Prompt, segment: Segment | None, at: int, same: int, known: Collection[bytes]
) -> str:
    """Return the prompt's text from ``same`` characters before ``at`` in ``segment``."""
    if segment is None:
        return ""
    text, most = "", at + _ONWARD + _LONGEST
    for one in islice(dropwhile(lambda one: one is not segment, prompt.segments), _MOST_SEGMENTS):
        text += one.text[:most]
        if len(text) >= most:
            break
    return hide_text(text[:most], known)[at - same : at + _ONWARD]


class DiffLine(NamedTuple):
    """A line of one of two texts shown side by side."""

    n: int  #: number of the line in its text, from 1
    parts: tuple[tuple[str, bool], ...]  #: pieces of its text, and whether each changed


def side_by_side(was: str, now: str, at: int) -> tuple[list[DiffLine], list[DiffLine]]:
    """Return lines of both texts around ``at``, up to which they are equal; none of an empty one.

    In texts longer than the excerpt, the last difference may only be due to the cut.
    """
    line = was.rfind("\n", 0, at) + 1
    number = was.count("\n", 0, line) + 1
    start = line if at - line <= _LEFT else at - _LEFT
    one, other = (
        [_cut(text) for text in whole[start:].split("\n", _LOOKED_AT)[:_LOOKED_AT]]
        for whole in (was, now)
    )
    found = hunks("\n".join(one), "\n".join(other))
    lines = was[: line - 1].rsplit("\n", _BEFORE)[-_BEFORE:] if line else []
    before = [
        DiffLine(n, ((_cut(text), False),)) for n, text in enumerate(lines, number - len(lines))
    ]
    left, right = (
        list(_marked(texts, spans, number, is_cut=start > line))
        for texts, spans in (
            (one, [hunk.was for hunk in found]),
            (other, [hunk.now for hunk in found]),
        )
    )
    return before + left if was else [], before + right if now else []


def _cut(line: str) -> str:
    return line if len(line) <= WIDEST else line[:WIDEST] + CUT


def _marked(
    lines: Sequence[str], spans: Sequence[_Span], number: int, *, is_cut: bool
) -> Iterator[DiffLine]:
    """Yield ``lines`` in pieces, cut at the ends of ``spans``, which are offsets in all of them."""
    offset = 0
    for count, line in enumerate(lines[:_AFTER]):
        parts: list[tuple[str, bool]] = [(CUT, False)] if is_cut and not count else []
        done = 0
        for start, end in spans:
            first, last = (min(max(one - offset, done), len(line)) for one in (start, end))
            parts += [(line[done:first], False), (line[first:last], True)]
            done = last
        parts.append((line[done:], False))
        yield DiffLine(number + count, tuple(part for part in parts if part[0]))
        offset += len(line) + 1
