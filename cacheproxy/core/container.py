"""The members of a JSON object, or the elements of an array, and where they stand."""

from __future__ import annotations

from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One member of an object or element of an array; offsets in bytes of the body."""

    key: str | int
    start: int
    value_start: int
    end: int
    value: Any


class Container:
    """The members of an object or the elements of an array, in their order.

    Offsets count from the opening bracket, so that a container stays what it is wherever it
    moves, and documents share it. Once read it is never altered, nor are the values.
    ``keys``: None for an array. ``inner``: for each value its own container, where it was read.
    """

    __slots__ = ("ends", "inner", "keys", "length", "starts", "value", "value_starts", "values")

    value: Any

    def __init__(self, source: Container | None, count: int, *, is_object: bool) -> None:
        """Begin with the first ``count`` entries of ``source``."""
        self.keys: list[str] | None = [] if is_object else None
        self.starts: list[int] = []
        self.value_starts = [] if is_object else self.starts
        self.ends: list[int] = []
        self.values: list[Any] = []
        self.inner: list[Container | None] = []
        self.length = 0
        if source is not None:
            self.take(source, slice(count), 0)

    def take(self, source: Container, which: slice, shift: int) -> None:
        """Take over entries of ``source``, ``shift`` bytes farther from the bracket."""
        if self.keys is not None and source.keys is not None:
            self.keys += source.keys[which]
            self.value_starts += _shifted(source.value_starts[which], shift)
        self.starts += _shifted(source.starts[which], shift)
        self.ends += _shifted(source.ends[which], shift)
        self.values += source.values[which]
        self.inner += source.inner[which]

    def take_rest(self, source: Container, number: int, shift: int) -> None:
        """Take over all entries from ``number`` on, and close it behind them."""
        self.take(source, slice(number, None), shift)
        self.close(source.length + shift)

    def close(self, length: int) -> None:
        """Note that no more will come: it takes ``length`` bytes, brackets included."""
        self.length = length
        self.value = (
            self.values if self.keys is None else dict(zip(self.keys, self.values, strict=True))
        )

    def find(self, key: str | int) -> int | None:
        """Return the number of the entry that ``key`` names: the last of duplicates."""
        if self.keys is None:
            return key if isinstance(key, int) and 0 <= key < len(self.values) else None
        if key not in self.value:
            return None
        return len(self.keys) - 1 - self.keys[::-1].index(str(key))

    def entry(self, number: int, opening: int) -> Entry:
        """Return an entry; ``opening``: where the bracket stands in the body."""
        return Entry(
            number if self.keys is None else self.keys[number],
            opening + self.starts[number],
            opening + self.value_starts[number],
            opening + self.ends[number],
            self.values[number],
        )


def _shifted(offsets: list[int], shift: int) -> list[int]:
    return [offset + shift for offset in offsets] if shift else offsets
