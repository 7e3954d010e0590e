"""What a check of ``cacheproxy doctor`` returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingState(StrEnum):
    """How a check came out. A FAIL makes the exit code 1."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    name: str  #: what was looked at
    state: FindingState  #: how it came out
    text: str  #: one line for people
    fix: str | None = None  #: what mends it, if anything


def ok(name: str, text: str, fix: str | None = None) -> Finding:
    """Return a finding that is as it should be."""
    return Finding(name, FindingState.OK, text, fix)


def note(name: str, text: str, fix: str | None = None) -> Finding:
    """Return a finding that is good to know."""
    return Finding(name, FindingState.NOTE, text, fix)


def warn(name: str, text: str, fix: str | None = None) -> Finding:
    """Return a finding that may matter."""
    return Finding(name, FindingState.WARN, text, fix)


def fail(name: str, text: str, fix: str | None = None) -> Finding:
    """Return a finding that is a fault."""
    return Finding(name, FindingState.FAIL, text, fix)
