"""The kind of a change between two texts that should be equal, recognized by its shape.

The log and the totals name the kind, since they must not show the texts (law 7).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from hashlib import blake2b

from cacheproxy.core.dialects.content import Part


class ChangeKind(StrEnum):
    """The kinds of change, from the most specific to the least."""

    UUID = "uuid"
    DATE = "date"
    CLOCK = "clock"
    NONCE = "hex nonce"
    COUNTER = "counter"
    BLOB = "binary data"
    PATH = "path"
    GIT = "git status"
    REORDERED = "reordered"
    MOVED = "moved block"
    SPELLING = "string or list"
    ADDED = "added"
    REMOVED = "removed"
    TEXT = "changed text"


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_NAME = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\.?"
_DAY = _NAME + r",? "
_WEEK = r"(?:,? \(?(?:calendar |ISO )?(?:[Ww]eek|KW|CW) \d{1,2}\)?)?"
_TIME = r"[0-2]?\d:[0-5]\d(?::[0-6]\d(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\.?)?"
_ZONE = r"(?:Z| ?(?:UTC|GMT|[A-Z]{3,4})(?:[+-]\d{1,2}(?::?\d{2})?)?|[+-]\d{2}:?\d{2})"
_DATES = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}",
    r"\d{1,2}[/.]\d{1,2}[/.]\d{4}",
    rf"{_MONTH} \d{{1,2}},? \d{{4}}",
    rf"\d{{1,2}}\.? {_MONTH} \d{{4}}",
    rf"{_MONTH},? \d{{4}}",
)
_ANY = f"(?:{'|'.join(_DATES)})"
_WITH_DAY = (
    rf"{_NAME} \({{}}\)",
    rf"{_NAME}(?:, ?| - | ){{}}",
    rf"{{}} \({_NAME}\)",
    rf"{{}}(?:, ?| - | ){_NAME}(?![0-9A-Za-z])",
    "{}",
)
"""Forms of a date with its day of the week: both are one field, as one alone would be false."""
_DATE = f"(?:{'|'.join(form.format(_ANY) + _WEEK for form in _WITH_DAY)})"
SHAPES = {
    ChangeKind.UUID: r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    ChangeKind.CLOCK: rf"(?:{_DATE}[T ,]+(?:at )?)?{_TIME}{_ZONE}?",
    ChangeKind.DATE: _DATE,
    ChangeKind.COUNTER: r"\d+",
    # After the counter: a nonce may have no letter in one turn.
    ChangeKind.NONCE: r"(?:[0-9a-f]{3,}|[0-9A-F]{3,})",
    # After all the shapes that a path may contain.
    ChangeKind.PATH: r"(?:~|[A-Za-z]:)?(?:[/\\][\w.@+-]+){2,}[/\\]?",
}
"""Patterns that match a whole token of the kind, anywhere in a text."""
STATUS_LINE = r"(?:(?:[MADRCUT?!][ MADRCUT?!]| ?[MDT]) \S[^\n]*|[0-9a-f]{7,40} \S[^\n]*|\(clean\))"
"""Pattern of a line of ``git status --short`` or ``git log --oneline``, or of a clean status."""
EDGE_BEFORE = r"(?<![0-9A-Za-z])"
EDGE_AFTER = r"(?![0-9A-Za-z])"
_COMPILED = {
    kind: re.compile(f"{EDGE_BEFORE}(?:{shape}){EDGE_AFTER}") for kind, shape in SHAPES.items()
}
_LINE = re.compile(rf"{STATUS_LINE}(?=\n|\Z)")
_STATUS = re.compile(rf"{STATUS_LINE}(?:\n{STATUS_LINE})*(?=\n|\Z)")
_ABOUT_GIT = re.compile(r"(?i)git|status|commits")
_HEADING = 400
"""Characters before status lines in which git, status or commits must be mentioned."""
_AROUND = 80
"""Characters around a difference in which its token is searched."""
_RUN = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_LEADS = re.compile(r"[\w/+.-]{0,40}(?:;base64,|\",\"data\":\")")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_-]{80,}={0,2}")
_NO_SHAPE = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
_MOST_RUN = 64 << 10
"""Characters before a difference in which the beginning of binary data is searched."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two turns."""

    kind: ChangeKind  #: kind of the change
    part: Part  #: part of the prompt
    path: str  #: JSON pointer in the later request, or in the earlier one if the text has gone
    source: str  #: writer of the text (see prompt.Segment)
    was: str  #: the differing text in the earlier request
    now: str  #: the differing text in the later request
    was_text: str | None = None
    """The string that contains ``was``; None: no change inside a string."""
    now_text: str | None = None
    """The string that contains ``now``; None: no change inside a string."""
    was_span: tuple[int, int] = (0, 0)
    """(start, end) of ``was`` in ``was_text``, in characters."""
    now_span: tuple[int, int] = (0, 0)
    """(start, end) of ``now`` in ``now_text``, in characters."""

    @property
    def before(self) -> str:
        """The line's text before the change, in the later request."""
        text = self.now_text or ""
        start = self.now_span[0]
        return text[text.rfind("\n", 0, start) + 1 : start]


@dataclass(frozen=True, slots=True)
class Hunk:
    """One difference between two texts: a token, or text without a shape."""

    kind: ChangeKind  #: kind of the change
    was: tuple[int, int]  #: (start, end) in the earlier text, in characters
    now: tuple[int, int]  #: (start, end) in the later text, in characters

    def change(self, place: tuple[Part, str, str], was: str, now: str) -> Change:
        """Return the change of two strings; ``place``: its part, path and source."""
        texts = was[slice(*self.was)], now[slice(*self.now)]
        return Change(self.kind, *place, *texts, was, now, self.was, self.now)


def token_at(was: str, now: str, was_at: int, now_at: int) -> Hunk | None:
    """Return the token around the first difference of two texts, None if it has no known shape.

    ``was_at``, ``now_at``: offsets of the divergence. Both texts must have a token of the same
    shape there.
    """
    for kind, find in _FINDING.items():
        one, other = find(was, was_at), find(now, now_at)
        if one is None or other is None or was[slice(*one)] == now[slice(*other)]:
            continue
        # The text before the difference is equal, so the tokens begin equally far before it.
        if was_at - one[0] == now_at - other[0]:
            return Hunk(kind, one, other)
    return None


def status_at(text: str, position: int) -> tuple[int, int] | None:
    """Return the span of the lines of a git status, or of commits, at ``position``.

    ``position`` may be their end: another line may have come. None if the text before the lines
    mentions neither git nor status nor commits.
    """
    line = text.rfind("\n", 0, position) + 1
    if not _LINE.match(text, line):
        line = text.rfind("\n", 0, max(0, line - 1)) + 1
    while line and _LINE.match(text, above := text.rfind("\n", 0, line - 1) + 1):
        line = above
    found = _STATUS.match(text, line)
    if found is None or position > found.end() + 1:
        return None
    return found.span() if _ABOUT_GIT.search(text, max(0, line - _HEADING), line) else None


def blob_at(text: str, position: int) -> tuple[int, int] | None:
    """Return the span of binary data, as base64, at ``position``, None if there is none.

    ``position`` may also be before a type that introduces the data.
    """
    leads = _LEADS.match(text, position)
    if leads is not None and (found := _RUN.match(text, leads.end())):
        return position, found.end()
    found = _RUN.match(text, position)
    end = position if found is None else found.end()
    before = _RUN.match(text[max(0, position - _MOST_RUN) : position][::-1])
    start = position - (0 if before is None else before.end())
    is_said = text.endswith((";base64,", '","data":"'), 0, start)
    return (start, end) if end > start and (is_said or _is_blob(text[start:end])) else None


def _is_blob(run: str) -> bool:
    """Whether a run of base64 characters is binary data: no hash, no path, no name."""
    is_mixed = run != run.lower() and run != run.upper() and any(map(str.isdigit, run))
    return len(run) >= _AROUND and is_mixed and 16 * run.count("/") < len(run)


def _digest_if_blob(found: re.Match[str]) -> str:
    """Return the digest of a run that is binary data, in letters without a shape; else the run."""
    run = found[0]
    return blake2b(run.encode()).hexdigest()[:12].translate(_NO_SHAPE) if _is_blob(run) else run


def masked(text: str) -> str:
    """Return the wording of ``text``: every token with a shape is replaced by ``#``.

    Binary data is replaced by its digest: other data is another text.
    """
    if len(text) >= _AROUND:
        text = _LONG_RUN.sub(_digest_if_blob, text)
    for pattern in _COMPILED.values():
        text = pattern.sub("#", text)
    return text


def _span_at(pattern: re.Pattern[str], text: str, position: int) -> tuple[int, int] | None:
    """Return the span of the match of ``pattern`` that covers or ends at ``position``, or None."""
    start = max(0, position - _AROUND)
    for found in pattern.finditer(text, start, position + _AROUND):
        if found.start() <= position <= found.end():
            return found.span()
        if found.start() > position:
            return None
    return None


# Git comes first: a commit's hash looks like a nonce, a file's name may contain a date.
_FINDING: dict[ChangeKind, Callable[[str, int], tuple[int, int] | None]] = {
    ChangeKind.GIT: status_at,
    ChangeKind.BLOB: blob_at,
    **{kind: partial(_span_at, pattern) for kind, pattern in _COMPILED.items()},
}
