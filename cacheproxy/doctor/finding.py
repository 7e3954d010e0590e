"""What a check returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingState(StrEnum):
    """How a check came out. A FAIL makes the exit code 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``name``: what was looked at; ``fix``: what mends it, if anything."""

    name: str
    state: FindingState
    text: str
    fix: str | None = None
