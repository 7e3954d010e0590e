"""What a check returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check came out. A FAIL makes the exit code 1."""

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
