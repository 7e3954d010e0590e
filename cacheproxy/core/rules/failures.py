"""How often each rule or hook failed, by name, since the start."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class FailureCount:
    """What went wrong with one rule or hook."""

    failed: int = 0  #: times
    timed_out: int = 0  #: times
    dropped: int = 0  #: records that were never shown to it
    left_out: bool = False  #: it is not called any more


class Failures:
    """The counts, by the names that the log uses. Written to on one thread alone."""

    def __init__(self) -> None:
        self._counts: dict[str, FailureCount] = {}

    def of(self, name: str) -> FailureCount:
        """Return the count of ``name``, to be read or raised."""
        return self._counts.setdefault(name, FailureCount())

    def forgive(self, name: str) -> None:
        """Say that ``name`` is called again."""
        if name in self._counts:
            self._counts[name].left_out = False

    def as_dict(self) -> dict[str, dict[str, int | bool]]:
        """Return all counts as plain values; those who never failed are not in it."""
        return {name: asdict(count) for name, count in sorted(self._counts.items())}
