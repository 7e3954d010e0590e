"""The differences between two texts: all of them, not only the first.

First the equal text at both ends is removed; then lines are matched with lines; then, within
matched lines, each differing token is recorded and skipped. Thus a change after a changed date is
still found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from cacheproxy.core.diff.kind import ChangeKind, Hunk, token_at
from cacheproxy.core.document.compare import common_prefix, common_suffix

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"[0-9A-Za-z]+|[^0-9A-Za-z]")
_TERM = re.compile(r"[0-9A-Za-z]+|[^\s0-9A-Za-z]")
_MOST_PAIRS = 400_000
"""Product of the numbers of lines of two texts that are matched line by line, at most."""
_AT_ONCE = 100_000
"""Words of a long text that are looked at together."""
_ALIKE = 0.5
_RUN = 5
"""Consecutive words by which a text is recognized; the number that ``_word_runs`` groups."""
TEXT_KINDS = (ChangeKind.TEXT, ChangeKind.ADDED, ChangeKind.REMOVED)
"""Kinds of changes without a shape."""
_Span = tuple[int, int]


def hunks(was: str, now: str) -> list[Hunk]:
    """Return the differences in order, [] for equal texts. Between them the texts are equal."""
    if was == now:
        return []
    head = common_prefix(was, now)
    tail = common_suffix(was, now, min(len(was), len(now)) - head)
    start = was.rfind("\n", 0, head) + 1
    until = _line_end(was, len(was) - tail) - len(was)
    ends = (len(was) + until, len(now) + until)
    result: list[Hunk] = []
    for hunk in list(_hunks_by_lines(was, now, (start, ends[0]), (start, ends[1]))):
        if hunk.kind not in TEXT_KINDS:
            result.append(hunk)
            continue
        (at, end), (by, stop) = hunk.was, hunk.now
        last = result[-1] if result else None
        if last and last.kind in TEXT_KINDS and (last.was[1], last.now[1]) == (at, by):
            result.pop()
            at, by = last.was[0], last.now[0]
        kind = ChangeKind.REMOVED if by == stop else ChangeKind.TEXT
        result.append(Hunk(ChangeKind.ADDED if at == end else kind, (at, end), (by, stop)))
    return [hunk for hunk in result if was[slice(*hunk.was)] != now[slice(*hunk.now)]]


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
    """Return the number of shared words over the number of words of the longer text (0 to 1)."""
    ours, theirs = Counter[str](), Counter[str]()
    for counts, text in ((ours, one), (theirs, other)):
        for words in words_of(text):
            counts.update(words)
    return (ours & theirs).total() / max(1, ours.total(), theirs.total())


def words_of(text: str) -> Iterator[list[str]]:
    """Yield the words of ``text``, some at a time: a list of all takes 15 times its bytes."""
    while text:
        words = text.split(None, _AT_ONCE)
        text = words.pop() if len(words) > _AT_ONCE else ""
        yield words


def common_chars(one: str, other: str) -> int:
    """Return the approximate number of characters of ``one`` that are anywhere in ``other`` too.

    Only runs of a few words count: any two texts share single words.
    """
    words, others = _TERM.findall(one), _TERM.findall(other)
    known, kept, until = set(map(hash, _word_runs(others))), 0, 0
    for at, run in enumerate(map(hash, _word_runs(words)) if known else ()):
        if run in known:
            kept += sum(map(len, words[max(at, until) : at + _RUN]))
            until = at + _RUN
    return round(kept * len(one) / max(1, sum(map(len, words))))


def common_lines(ones: Iterable[str], others: Iterable[str]) -> int:
    """Return the number of characters of ``ones`` in lines that ``others`` have too.

    It is less than that of ``common_chars``, and takes a fiftieth of the time.
    """
    known: set[str] = set()
    for text in others:
        known.update(text.splitlines(keepends=True))
    return sum(
        len(line) for text in ones for line in text.splitlines(keepends=True) if line in known
    )


def _word_runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(words, words[1:], words[2:], words[3:], words[4:], strict=False)


def _line_end(text: str, position: int) -> int:
    """Return the end of the line at ``position``, behind its newline."""
    if position > 0 and text[position - 1] == "\n":
        return position
    found = text.find("\n", position)
    return len(text) if found < 0 else found + 1


def _hunks_by_lines(was: str, now: str, ours: _Span, theirs: _Span) -> Iterator[Hunk]:
    """Yield the differences of two spans, lines matched first; one for all of them if too long."""
    left, right = _bounds(was, ours), _bounds(now, theirs)
    if (len(left) - 1) * (len(right) - 1) > _MOST_PAIRS:
        yield Hunk(ChangeKind.TEXT, ours, theirs)
        return
    one, other = [was[a:b] for a, b in pairwise(left)], [now[a:b] for a, b in pairwise(right)]
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        for (a, b), (c, d) in _paired(one[i1:i2], other[j1:j2]):
            span = left[i1 + a], left[i1 + b]
            yield from _hunks_in_span(was, now, span, (right[j1 + c], right[j1 + d]))


def _bounds(text: str, span: _Span) -> list[int]:
    """Return the offsets of the beginnings of the lines in ``span``, and of its end."""
    return [*(found.start() for found in _LINE.finditer(text, *span)), span[1]]


def _paired(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[_Span, _Span]]:
    """Yield matched ranges of lines in order: (start, end) in either list, empty for no match."""
    if len(ours) == len(theirs):
        yield from (((i, i + 1), (i, i + 1)) for i in range(len(ours)))
        return
    best = _best_pairs(ours, theirs) if len(ours) * len(theirs) <= 2500 else ()
    i = j = 0
    for row, column in best:
        if i < row or j < column:
            yield (i, row), (j, column)
        i, j = row + 1, column + 1
        yield (row, i), (column, j)
    if i < len(ours) or j < len(theirs):
        yield (i, len(ours)), (j, len(theirs))


def _best_pairs(ours: Sequence[str], theirs: Sequence[str]) -> tuple[_Span, ...]:
    """Return the longest sequence of pairs of similar lines (a longest common subsequence)."""
    below: list[tuple[_Span, ...]] = [()] * (len(theirs) + 1)
    for i in reversed(range(len(ours))):
        best: list[tuple[_Span, ...]] = [()] * (len(theirs) + 1)
        for j in reversed(range(len(theirs))):
            if alike(ours[i].strip(), theirs[j].strip()):
                best[j] = ((i, j), *below[j + 1])
            else:
                best[j] = max(below[j], best[j + 1], key=len)
        below = best
    return below[0]


def _hunks_in_span(was: str, now: str, ours: _Span, theirs: _Span) -> Iterator[Hunk]:
    """Yield the differences between two matched spans, token by token."""
    (at, end), (by, stop) = ours, theirs
    floor, ground = at, by
    while True:
        equal = common_prefix(was[at:end], now[by:stop])
        at, by = at + equal, by + equal
        if at == end and by == stop:
            return
        token = token_at(was, now, at, by)
        if token and floor <= token.was[0] and token.was[1] <= end and token.now[1] <= stop:
            yield token
            at, by = floor, ground = token.was[1], token.now[1]
            continue
        is_git = token is not None and token.kind is ChangeKind.GIT  # it spans equal lines too
        if was[at:end][:1].isalnum() or now[by:stop][:1].isalnum():  # in the middle of a word
            while at > floor and by > ground and was[at - 1].isalnum():
                at, by = at - 1, by - 1
        ahead, onward = _next_equal(was[at:end], now[by:stop])
        kind = ChangeKind.GIT if is_git else ChangeKind.TEXT
        yield Hunk(kind, (at, at + ahead), (by, by + onward))
        at, by = floor, ground = at + ahead, by + onward


def _next_equal(was: str, now: str) -> tuple[int, int]:
    """Return the offsets at which texts that differ at once agree again; their ends if never."""
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
