"""The members of a JSON object, or the elements of an array, with their places."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import chain, compress, count
from operator import attrgetter
from typing import Any, NamedTuple

from cacheproxy.core.document.pointer import Path, PathPattern, match_all

_EACH_VALUE = 130
"""Bytes of a value beside its text, as measured: 30 for a number, 140 for a member."""
_MOST_COUNTED = 256
"""Values at most that are counted one by one; of more, the commas and brackets are counted."""
_HOLDS_VALUES = frozenset((dict, list)).__contains__
_EACH_ITEM = 1000
"""Bytes of an item itself, with a prompt's note on it, as measured."""
_ESCAPED_EMOJI = re.compile(rb"\\u[dD][89abAB]").search
"""Search for half of a character of four bytes, as escaped by clients that write ASCII alone."""
_REACH = attrgetter("reach")
_UNSEARCHED: tuple[Any, int, frozenset[Any]] = (None, 0, frozenset())


class Entry(NamedTuple):
    """One member of an object or element of an array; offsets in bytes of the body."""

    key: str | int  #: name of a member, or index of an element
    start: int  #: offset of the entry: for a member, of its name
    value_start: int  #: offset of the value
    end: int  #: offset behind the value
    value: Any  #: parsed value


class SpelledValue:
    """A value with its spelling; all bodies that contain it share this object.

    ``cost``: bytes in memory, roughly: one emoji makes each character of its text take four, an
    arrow two. ``looked``: the texts searched for in it (Words), their number, and those found.
    ``note``: a prompt's own data on it, and its place. ``holders``: number of objects in a memo
    that have it.
    """

    __slots__ = ("cost", "holders", "looked", "note", "spelled", "value")

    def __init__(self, spelled: bytes, value: Any) -> None:
        self.spelled = spelled
        self.value = value
        values, found = 0, [value] if _HOLDS_VALUES(type(value)) else []
        for one in found:  # including the values appended in the loop
            values += 1 + len(one)
            if values > _MOST_COUNTED:  # an upper bound: texts may have these characters as well
                values = len(spelled) - len(spelled.translate(None, b",[{"))
                break
            inner = one.values() if type(one) is dict else one
            found += compress(inner, map(_HOLDS_VALUES, map(type, inner)))
        width = 1  # bytes of each character of the widest text in it, at most
        if not spelled.isascii() or b"\\u" in spelled:
            width = 4 if b"\xf0" in spelled or _ESCAPED_EMOJI(spelled) else 2
        self.cost = _EACH_ITEM + (1 + width) * len(spelled) + _EACH_VALUE * values
        self.holders = 0
        self.looked = _UNSEARCHED
        self.note: tuple[Any, Any] | None = None


class Container:
    """The members of an object or the elements of an array, in their order.

    Offsets count from the opening bracket, so that documents can share a container wherever it
    moves. Once read, neither it nor its values are altered. ``keys``: names of all members,
    duplicates included; None for an array.
    """

    __slots__ = (
        *("before", "ends", "items", "keys", "length", "notes", "shared", "spelled", "starts"),
        *("value", "value_starts", "values"),
    )

    def __init__(self, keys: list[str] | None = None) -> None:
        self.keys = keys
        self.starts: list[int] = []  #: offsets of the entries, in bytes
        self.value_starts = self.starts if keys is None else []  #: offsets of their values
        self.ends: list[int] = []  #: offsets behind the entries
        self.values: list[Any] = []  #: parsed values
        self.items: list[Any] = []
        """Elements (SpelledValue) of an array that is a member of the body; for the body itself, an
        item, an array or None (a short value) for each member."""
        self.notes: dict[Any, Any] = {}
        """Data that others derived from such an array."""
        self.before: tuple[dict[Any, Any], int] = {}, 0
        """Notes of another array, and the number of leading items that both have."""
        self.shared = 0  #: number of leading bytes in common with that array
        self.value: Any = None  #: whole value, once it is read
        self.length = 0  #: bytes, brackets included, once it is read
        self.spelled: memoryview  #: bytes of an array that is a member

    def place(self, other: Container, upto: int, shift: int) -> None:
        """Add the places of ``other`` up to the start of value ``upto``, ``shift`` bytes on."""
        moved = shift.__add__
        self.starts.extend(map(moved, other.starts[len(self.starts) : upto + 1]))
        starts = self.value_starts
        starts.extend(map(moved, other.value_starts[len(starts) : upto + 1]))
        self.ends.extend(map(moved, other.ends[len(self.ends) : upto]))

    def begun(self, length: int) -> Container:
        """Return an array with the elements that end within ``length`` bytes of this one."""
        whole = bisect_right(self.ends, length)
        if whole and self.ends[whole - 1] == length and self.spelled[length - 1] not in b'"]}':
            whole -= 1  # a number may go on: 12 as 123
        made = Container()
        made.starts = made.value_starts = self.starts[:whole]
        made.ends = self.ends[:whole]
        made.values = self.values[:whole]
        made.items = self.items[:whole]
        made.before, made.shared = (self.notes, whole), length
        return made

    def texts(self, name: str, patterns: tuple[PathPattern, ...]) -> list[tuple[Path, str]]:
        """Return the texts that ``patterns`` match, each once, with their paths from the body.

        ``name``: the body's member that is this array, the first step of each pattern. Elements
        that the array before has too are not searched again, nor any that no pattern leads to.
        """
        kept: tuple[list[tuple[Path, str]], list[Any]] | None = self.notes.get(patterns)
        if kept is None:
            notes, shared = self.before
            kept = notes.get(patterns)  # read once: another thread may be about to add it
            if kept is None or shared < max(map(_REACH, patterns)):
                first = 0 if kept is None else shared
                found = match_all(self.value, filter(_REACH, patterns), str, first, (name,))
                for new, old in zip(found, () if kept is None else kept[1], strict=False):
                    new[:0] = old[: bisect_left(old, ((name, shared),))]
                texts = found[0] if len(found) == 1 else [*dict(chain.from_iterable(found)).items()]
                kept = texts, found
            self.notes[patterns] = kept
        return kept[0]

    def find(self, key: str | int) -> int | None:
        """Return the number of the entry named ``key``, the last of duplicates; None if none."""
        keys = self.keys
        if keys is None:
            return key if isinstance(key, int) and 0 <= key < len(self.values) else None
        if key not in self.value:
            return None
        return len(keys) - 1 - keys[::-1].index(str(key))

    def entry(self, number: int, opening: int) -> Entry:
        """Return an entry; ``opening``: offset of the container's bracket in the body."""
        return Entry(
            number if self.keys is None else self.keys[number],
            opening + self.starts[number],
            opening + self.value_starts[number],
            opening + self.ends[number],
            self.values[number],
        )


Item = SpelledValue | Container
"""A long value, or any array, that is a member of a body."""


class Frame:
    """The text of a body around its items: bodies that differ in their items alone share it.

    ``texts``: names and short values, a text before each item and one behind the last.
    ``numbers``: those of the items among all ``count`` members, by their names. ``is_unique``:
    whether no name comes twice; if one does, all but the last of that name are text. ``start``:
    offset of the object in the body.
    """

    __slots__ = ("_places", "count", "is_unique", "numbers", "start", "texts")

    def __init__(self, body: bytes, start: int, root: Container) -> None:
        keys, at, self.texts = root.keys or [], 0, list[bytes]()
        last = dict(zip(keys, count(), strict=False))
        numbers = (one for one in compress(count(), root.items) if last[keys[one]] == one)
        self.numbers = {keys[number]: number for number in numbers}
        for number in self.numbers.values():
            self.texts.append(body[at : start + root.value_starts[number]])
            at = start + root.ends[number]
        self.texts.append(body[at:])
        self.start, self.count, self.is_unique = start, len(keys), len(last) == len(keys)
        self._places = places = Container(keys)  # without the values, which would stay in memory
        places.starts, places.value_starts, places.ends = root.starts, root.value_starts, root.ends
        places.length = root.length

    def members(self, starts: list[int], items: Iterable[Item], value: dict[str, Any]) -> Container:
        """Return the members of the body whose ``items`` are at the offsets ``starts``."""
        old, made, shift = self._places, Container(self._places.keys), 0
        made.items, made.value, made.values = [None] * self.count, value, [*value.values()]
        for number, start, item in zip(self.numbers.values(), starts, items, strict=True):
            made.items[number] = item
            made.place(old, number, start - self.start - old.value_starts[number])
            shift = start + len(item.spelled) - self.start - old.ends[number]
        made.place(old, self.count, shift)
        made.length = old.length + shift
        return made
