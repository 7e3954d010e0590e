"""What a check of ``cacheproxy doctor`` returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingState(StrEnum):
    """How a check came out; called, it makes such a finding. A FAIL makes the exit code 1."""

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

    name: str  #: what was looked at
    state: FindingState  #: how it came out
    text: str  #: one line for people
    fix: str | None = None  #: what mends it, if anything


ok, note, warn, fail = FindingState
