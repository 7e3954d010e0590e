"""What a check returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How things stand. A FAIL is worth exit code 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``name``: what was looked at; ``fix``: what mends it, if anything."""

    name: str
    state: State
    text: str
    fix: str | None = None


def ago(seconds: float) -> str:
    """Return how long ago something was, for people."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return "just now" if seconds < 5 else f"{seconds:.0f} s ago"


def counted(number: int, noun: str) -> str:
    """Return ``number`` and ``noun``, in the plural where that is due."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
