"""Finding: the result of one check of ``cacheproxy doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingState(StrEnum):
    """A check's result; calling one makes a Finding of it. A FAIL sets exit code 1."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "FAIL"

    def __call__(self, name: str, text: str, fix: str | None = None) -> Finding:
        """Return a finding of this state."""
        return Finding(name, self, text, fix)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    name: str  #: the subject of the check
    state: FindingState  #: its result
    text: str  #: one line for people
    fix: str | None = None  #: the cure, None if there is none


ok, note, warn, fail = FindingState
