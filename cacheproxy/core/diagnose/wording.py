"""What a proposed pin tells the model when its value changes, in words a client would use."""

from __future__ import annotations

import re

from cacheproxy.core.diff.kind import ChangeKind

PINNED = frozenset((ChangeKind.DATE, ChangeKind.CLOCK, ChangeKind.PATH, ChangeKind.GIT))
"""Kinds whose value the model may need: a constant in their place would be a lie."""
_VOLATILE = r"\g<volatile>"
_CALENDAR = re.compile(r"(?i)\b(?:week|kw|cw|day|month|quarter|year|hour|minute)\W*\Z")
_TODAY = re.compile(r"(?i)\b(?:today|current|now)\b|\A\W*(?:the )?date\W*\Z")
_LABEL = re.compile(r"(?<![A-Za-z0-9 '_-])[0-9 '_-]*+([A-Za-z][A-Za-z0-9 '_-]*)\Z")
_IS = re.compile(r"(?i)(?<!\s)\s*\b(?:is|was|are)\Z")
_LEAST = 8


def is_pinned(kind: ChangeKind, before: str) -> bool:
    """Whether a field is pinned, and told when it changes; else it is made constant.

    ``before``: what the line says before it: a number of the calendar's is no counter.
    """
    return kind in PINNED or (kind is ChangeKind.COUNTER and bool(_CALENDAR.search(before)))


def note_for(kind: ChangeKind, before: str) -> str:
    """Return the note of a rule (see ``rules.note``); ``before``: what the line says before it."""
    if kind is ChangeKind.DATE and _TODAY.search(before):
        return f"Today's date is now {_VOLATILE}."
    found = _LABEL.search(before.rstrip(" :=\t\"'(`"))
    label = _IS.sub("", found[1].strip()) if found else ""
    said = f"{label[:1].upper()}{label[1:]} is now "
    if not label or len(said) < _LEAST:
        said = f"The {kind.value} is now "
    return f"{said}{_VOLATILE}."


def git_note(heading: str) -> str:
    """Return the note of a git status, or of commits, below the line ``heading``."""
    plain = heading.isascii() and "\\" not in heading and "<" not in heading
    said = heading.strip().rstrip(":") if plain else "Git status"
    return f"It has changed: {said} now\n{_VOLATILE}"
