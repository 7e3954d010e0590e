"""All places where two texts differ, not only the first.

First the equal text at both ends is removed; then lines are matched with lines; then, within
matched lines, each differing token is recorded and skipped. So a change after a changed date is
still found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from cacheproxy.core.diff.kind import ChangeKind, token_at
from cacheproxy.core.document.compare import common_prefix, common_suffix

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"[0-9A-Za-z]+|[^0-9A-Za-z]")
_TERM = re.compile(r"[0-9A-Za-z]+|[^\s0-9A-Za-z]")
_MOST_PAIRS = 400_000
"""Lines of one text times lines of the other up to which they are matched one by one."""
_ALIKE = 0.5
_RUN = 5
"""Words in a row by which a text is known again."""
TEXT_KINDS = (ChangeKind.TEXT, ChangeKind.ADDED, ChangeKind.REMOVED)
"""Kinds of a change that has no shape of its own."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One difference between two texts."""

    kind: ChangeKind  #: what sort of change it is
    was: tuple[int, int]  #: (start, end) in characters of the earlier text
    now: tuple[int, int]  #: (start, end) in characters of the later text


def hunks(was: str, now: str) -> list[Hunk]:
    """Return the differences in order. Between them the texts are equal."""
    if was == now:
        return []
    head = common_prefix(was, now)
    tail = common_suffix(was, now, min(len(was), len(now)) - head)
    start = was.rfind("\n", 0, head) + 1
    until = _line_end(was, len(was) - tail) - len(was)
    ends = (len(was) + until, len(now) + until)
    return _merged(list(_by_lines(was, now, (start, ends[0]), (start, ends[1]))), was, now)


def alike(one: str, other: str) -> bool:
    """Whether two texts are versions of one: much the same ends, or much the same words."""
    if one == other:
        return True
    short = min(len(one), len(other))
    head = common_prefix(one, other)
    ends = head + common_suffix(one, other, short - head)
    if ends >= 8 and ends >= _ALIKE * short:
        return True
    return share_of_words(one, other) >= _ALIKE


def share_of_words(one: str, other: str) -> float:
    """Return how many words the texts share, over the words of the longer (0 to 1)."""
    ours, theirs = one.split(), other.split()
    shared = (Counter(ours) & Counter(theirs)).total()
    return shared / max(1, len(ours), len(theirs))


def kept_chars(one: str, other: str) -> int:
    """Return about how many characters of ``one`` are in ``other`` as well, wherever they stand.

    That is what runs of a few words show: single words are in any two texts.
    """
    words = _TERM.findall(one)
    known, kept, until = set(map(hash, _runs(_TERM.findall(other)))), 0, 0
    for at, run in enumerate(_runs(words)):
        if hash(run) in known:
            kept += sum(map(len, words[max(at, until) : at + _RUN]))
            until = at + _RUN
    return round(kept * len(one) / max(1, sum(map(len, words))))


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(_RUN)), strict=False)


def _line_end(text: str, position: int) -> int:
    """The end of the line that ``position`` is in, its newline included."""
    if position > 0 and text[position - 1] == "\n":
        return position
    found = text.find("\n", position)
    return len(text) if found < 0 else found + 1


def _by_lines(was: str, now: str, ours: tuple[int, int], theirs: tuple[int, int]) -> Iterator[Hunk]:
    left, right = _lines(was, ours), _lines(now, theirs)
    if len(left) * len(right) > _MOST_PAIRS:
        yield Hunk(ChangeKind.TEXT, ours, theirs)
        return
    matcher = SequenceMatcher(
        None, [was[a:b] for a, b in left], [now[a:b] for a, b in right], autojunk=False
    )
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        for some, other in _paired(was, now, left[i1:i2], right[j1:j2]):
            # Where one side has nothing, its place is where the last line ended.
            span = some or _empty(left, i1, ours)
            yield from _inside(was, now, span, other or _empty(right, j1, theirs))


def _lines(text: str, span: tuple[int, int]) -> list[tuple[int, int]]:
    return [found.span() for found in _LINE.finditer(text, *span)]


def _empty(lines: list[tuple[int, int]], index: int, whole: tuple[int, int]) -> tuple[int, int]:
    at = lines[index][0] if index < len(lines) else whole[1]
    return at, at


_Span = tuple[int, int]


def _paired(
    was: str, now: str, left: Sequence[_Span], right: Sequence[_Span]
) -> list[tuple[_Span | None, _Span | None]]:
    """Return which line became which, in order; None where there is no such line."""
    if len(left) == len(right):
        return list(zip(left, right, strict=True))
    if not left or not right or len(left) * len(right) > 2500:
        whole = [(side[0][0], side[-1][1]) if side else None for side in (left, right)]
        return [(whole[0], whole[1])]
    best = _best_pairs(was, now, left, right)
    result: list[tuple[_Span | None, _Span | None]] = []
    i = j = 0
    for row, column in [*best, (len(left), len(right))]:
        gone, new = left[i:row], right[j:column]
        if gone or new:
            # At the place where they stand: an empty span between the lines around it.
            at_left = left[row][0] if row < len(left) else left[-1][1]
            at_right = right[column][0] if column < len(right) else right[-1][1]
            result.append(
                (
                    (gone[0][0], gone[-1][1]) if gone else (at_left, at_left),
                    (new[0][0], new[-1][1]) if new else (at_right, at_right),
                )
            )
        if row < len(left):
            result.append((left[row], right[column]))
        i, j = row + 1, column + 1
    return result


def _best_pairs(
    was: str, now: str, left: Sequence[_Span], right: Sequence[_Span]
) -> list[tuple[int, int]]:
    """The longest sequence of lines that are alike, in order (a longest common subsequence)."""
    rows, columns = len(left), len(right)
    same = [
        [alike(was[slice(*one)].strip(), now[slice(*other)].strip()) for other in right]
        for one in left
    ]
    length = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            length[i][j] = max(
                length[i + 1][j], length[i][j + 1], length[i + 1][j + 1] + 1 if same[i][j] else 0
            )
    pairs = []
    i = j = 0
    while i < rows and j < columns:
        if same[i][j] and length[i][j] == length[i + 1][j + 1] + 1:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _inside(was: str, now: str, ours: _Span, theirs: _Span) -> Iterator[Hunk]:
    """Yield the differences between two spans that belong together, token by token."""
    (at, end), (by, stop) = ours, theirs
    floor, ground = at, by
    while True:
        equal = common_prefix(was[at:end], now[by:stop])
        at, by = at + equal, by + equal
        if at == end and by == stop:
            return
        token = token_at(was, now, at, by)
        if (
            token is not None
            and token.was[0] >= floor
            and token.was[1] <= end
            and token.now[1] <= stop
        ):
            yield Hunk(token.kind, token.was, token.now)
            at, by = floor, ground = token.was[1], token.now[1]
            continue
        is_git = token is not None and token.kind is ChangeKind.GIT  # more lines than differ
        if was[at:end][:1].isalnum() or now[by:stop][:1].isalnum():  # in the middle of a word
            while at > floor and by > ground and was[at - 1].isalnum():
                at, by = at - 1, by - 1
        ahead, onward = _next_equal(was[at:end], now[by:stop])
        kind = ChangeKind.GIT if is_git else ChangeKind.TEXT
        yield Hunk(kind, (at, at + ahead), (by, by + onward))
        at, by = floor, ground = at + ahead, by + onward


def _next_equal(was: str, now: str) -> tuple[int, int]:
    """Return where in two texts, that differ from the start, they agree again for a while."""
    ours, theirs = _WORD.findall(was), _WORD.findall(now)
    if len(ours) * len(theirs) > _MOST_PAIRS:
        return len(was), len(now)
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    for i, j, size in blocks:
        # A comma or two are no agreement; the end of both texts is.
        is_end = size and i + size == len(ours) and j + size == len(theirs)
        if i + j and (is_end or sum(map(len, ours[i : i + size])) >= 4):
            return len("".join(ours[:i])), len("".join(theirs[:j]))
    return len(was), len(now)


def _merged(found: list[Hunk], was: str, now: str) -> list[Hunk]:
    """Join neighbouring texts without shape, and say of each whether it came or went."""
    result: list[Hunk] = []
    for hunk in found:
        last = result[-1] if result else None
        if (
            last is not None
            and hunk.kind in TEXT_KINDS
            and last.kind in TEXT_KINDS
            and last.was[1] == hunk.was[0]
            and last.now[1] == hunk.now[0]
        ):
            result[-1] = _named((last.was[0], hunk.was[1]), (last.now[0], hunk.now[1]))
        elif hunk.kind in TEXT_KINDS:
            result.append(_named(hunk.was, hunk.now))
        else:
            result.append(hunk)
    return [hunk for hunk in result if was[slice(*hunk.was)] != now[slice(*hunk.now)]]


def _named(was: _Span, now: _Span) -> Hunk:
    if was[0] == was[1]:
        return Hunk(ChangeKind.ADDED, was, now)
    return Hunk(ChangeKind.REMOVED if now[0] == now[1] else ChangeKind.TEXT, was, now)
