"""Two texts side by side: some lines around their first difference, what changed marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cacheproxy.core.diff.text import hunks

_BEFORE, _AFTER = 2, 4
"""Lines before that of the difference, and from it on."""
_LOOKED_AT = 40
"""Lines that are compared, so that what only moved is not marked."""
WIDEST = 400
"""Characters of a line."""
_LEFT = 160
"""Characters before the difference in its own line, where that is long."""
CUT = "…"

_Span = tuple[int, int]


class DiffLine(NamedTuple):
    """One line of two texts shown side by side."""

    n: int  #: its number in its text, from 1
    parts: tuple[tuple[str, bool], ...]  #: its text in pieces, and whether each changed


def side_by_side(was: str, now: str, at: int) -> tuple[list[DiffLine], list[DiffLine]]:
    """Return lines of both texts around ``at``, up to which they are equal; none of an empty one.

    Where they go on for longer than is shown, the last difference may only be that of the cut.
    """
    line = was.rfind("\n", 0, at) + 1
    number = was.count("\n", 0, line) + 1
    start = line if at - line <= _LEFT else at - _LEFT
    one, other = _from(was, start), _from(now, start)
    found = hunks("\n".join(one), "\n".join(other))
    before = list(_before(was, line, number))
    left, right = (
        list(_marked(texts, spans, number, is_cut=start > line))
        for texts, spans in (
            (one, [hunk.was for hunk in found]),
            (other, [hunk.now for hunk in found]),
        )
    )
    return before + left if was else [], before + right if now else []


def _before(text: str, end: int, number: int) -> Iterator[DiffLine]:
    """Yield the lines before ``end``, where that with ``number`` begins."""
    lines: list[str] = []
    while end and len(lines) < _BEFORE:
        start = text.rfind("\n", 0, end - 1) + 1
        lines.insert(0, _cut(text, start, end - 1))
        end = start
    for back, line in zip(range(len(lines), 0, -1), lines, strict=True):
        yield DiffLine(number - back, ((line, False),))


def _from(text: str, start: int) -> list[str]:
    """Return the lines from ``start`` on."""
    lines: list[str] = []
    while len(lines) < _LOOKED_AT and start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        lines.append(_cut(text, start, end))
        start = end + 1
    return lines


def _cut(text: str, start: int, end: int) -> str:
    return text[start:end] if end - start <= WIDEST else text[start : start + WIDEST] + CUT


def _marked(
    lines: Sequence[str], spans: Sequence[_Span], number: int, *, is_cut: bool
) -> Iterator[DiffLine]:
    """Yield ``lines``, cut in pieces where one of ``spans`` of all of them begins or ends."""
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
