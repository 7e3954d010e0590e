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


class Change(NamedTuple):
    """Another value for the entry ``number``, ``longer`` bytes longer, and its container."""

    number: int
    value: Any
    longer: int
    inner: Container | None = None


class Container:
    """The members of an object or the elements of an array, in their order.

    Offsets count from the opening bracket, so that a container stays what it is wherever it
    moves, and documents share it. Once read it is never altered, nor are the values.
    ``keys``: None for an array, whose ``value_starts`` are its ``starts``. ``inner``: for each
    value of the root its own container, if it has one.
    """

    __slots__ = ("ends", "inner", "keys", "length", "starts", "value", "value_starts", "values")

    value: Any
    length: int

    def __init__(self, *, is_object: bool) -> None:
        """Begin one that has no entries yet."""
        self.keys: list[str] | None = [] if is_object else None
        self.starts: list[int] = []
        self.value_starts = [] if is_object else self.starts
        self.ends: list[int] = []
        self.values: list[Any] = []
        self.inner: list[Container | None] = []

    def begun(self, count: int) -> Container:
        """Return one that has the first ``count`` entries of this one, to be gone on with."""
        made = Container.__new__(Container)
        made.keys = None
        made.starts = made.value_starts = self.starts[:count]
        if self.keys is not None:
            made.keys, made.value_starts = self.keys[:count], self.value_starts[:count]
        made.ends = self.ends[:count]
        made.values = self.values[:count]
        made.inner = self.inner[:count]
        return made

    def take_rest(self, source: Container, number: int, shift: int) -> None:
        """Take over all entries of ``source`` from ``number`` on, and close it behind them.

        ``shift``: how many bytes farther from the bracket they are here.
        """
        if self.keys is not None and source.keys is not None:
            self.keys += source.keys[number:]
            self.value_starts += _shifted(source.value_starts[number:], shift)
        self.starts += _shifted(source.starts[number:], shift)
        self.ends += _shifted(source.ends[number:], shift)
        self.values += source.values[number:]
        self.inner += source.inner[number:]
        self.close(source.length + shift)

    def close(self, length: int) -> None:
        """Note that no more will come: it takes ``length`` bytes, brackets included."""
        self.length = length
        keys = self.keys
        self.value = self.values if keys is None else dict(zip(keys, self.values, strict=True))

    def changed(self, changes: list[Change]) -> Container:
        """Return one that has ``changes`` made, each of another entry, ascending."""
        return _Changed(self, changes)

    @property
    def entries(self) -> int:
        """How many it has, with those of the containers in it."""
        return len(self.values) + sum(len(each.values) for each in self.inner if each is not None)

    def find(self, key: str | int) -> int | None:
        """Return the number of the entry that ``key`` names: the last of duplicates."""
        keys = self.keys
        if keys is None:
            return key if isinstance(key, int) and 0 <= key < len(self.values) else None
        if key not in self.value:
            return None
        if len(keys) == len(self.value):
            return keys.index(key)  # type: ignore[arg-type]  # what is in the dict is a str
        return len(keys) - 1 - keys[::-1].index(str(key))

    def entry(self, number: int, opening: int) -> Entry:
        """Return an entry; ``opening``: where the bracket stands in the body."""
        return Entry(
            number if self.keys is None else self.keys[number],
            opening + self.starts[number],
            opening + self.value_starts[number],
            opening + self.ends[number],
            self.values[number],
        )


class _Changed(Container):
    """One after ``changes``; its offsets are worked out when somebody asks for one of them.

    A body that was edited is sent, and the next one is read with that before its edits at hand.
    So mostly nobody does, which spares a turn 330 of 23,500 bytecodes.
    """

    __slots__ = ("_before", "_changes")

    def __init__(self, before: Container, changes: list[Change]) -> None:
        self._before, self._changes = before, changes
        self.keys, length = before.keys, before.length
        self.values, self.inner = before.values.copy(), before.inner.copy()
        for number, value, longer, inner in changes:
            self.values[number] = value
            length += longer
            if inner is not None:
                self.inner[number] = inner
        self.close(length)

    def __getattr__(self, name: str) -> Any:
        """Work out the offsets at the first look at one; two threads at once may both do so."""
        if name not in ("starts", "value_starts", "ends"):
            raise AttributeError(name)
        before, changes = self._before, self._changes
        self.starts = starts = _moved(before.starts, changes, 1)
        has_names = before.keys is not None
        self.value_starts = _moved(before.value_starts, changes, 1) if has_names else starts
        self.ends = _moved(before.ends, changes, 0)
        return object.__getattribute__(self, name)


def _shifted(offsets: list[int], shift: int) -> list[int]:
    return [offset + shift for offset in offsets] if shift else offsets


def _moved(offsets: list[int], changes: list[Change], behind: int) -> list[int]:
    """Shift ``offsets`` from each change on, or from the entry ``behind`` it."""
    moved: list[int] = []
    at = shift = 0
    for number, _, longer, _ in changes:
        moved += _shifted(offsets[at : number + behind], shift)
        at = number + behind
        shift += longer
    return moved + _shifted(offsets[at:], shift)
