"""The members of a JSON object, or the elements of an array, with their places."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import chain, compress
from typing import Any, NamedTuple

from cacheproxy.core.document.pointer import Path, PathPattern, match_all

_EACH_VALUE = 130
"""Bytes that a value takes beside its text, as measured: 30 for a number, 140 for a member."""
_MOST_COUNTED = 256
"""Values that are counted one by one: of more, their signs are."""
_HOLDS_VALUES = frozenset((dict, list)).__contains__
_EACH_ITEM = 1000
"""Bytes that an item takes itself, with what a prompt makes of it, as measured."""
_ESCAPED_EMOJI = re.compile(rb"\\u[dD][89abAB]").search
"""Half of a character that takes four bytes, as clients spell it that write ASCII alone."""
_UNSEARCHED: tuple[Any, int, frozenset[Any]] = (None, 0, frozenset())


class Entry(NamedTuple):
    """One member of an object or element of an array; offsets in bytes of the body."""

    key: str | int  #: a member's name, or an element's index
    start: int  #: where it begins: for a member, its name
    value_start: int  #: where its value begins
    end: int  #: behind its value
    value: Any  #: what it was read as


class SpelledValue:
    """A value as it is spelled, and what it came to; all bodies that hold it share it.

    ``cost``: bytes that it takes, roughly: one emoji makes each character of its text take four, an
    arrow two. ``looked``: which texts were looked for in it (Words), how many of them, and those
    that it holds. ``note``: what a prompt made of it, and where. ``holders``: how many of the
    things that a memo keeps have it.
    """

    __slots__ = ("cost", "holders", "looked", "note", "spelled", "value")

    def __init__(self, spelled: bytes, value: Any) -> None:
        self.spelled = spelled
        self.value = value
        values, found = 0, [value] if _HOLDS_VALUES(type(value)) else []
        for one in found:  # and what is put behind it meanwhile
            values += 1 + len(one)
            if values > _MOST_COUNTED:  # at most: texts may hold these signs as well
                values = len(spelled) - len(spelled.translate(None, b",[{"))
                break
            inner = one.values() if type(one) is dict else one
            found += compress(inner, map(_HOLDS_VALUES, map(type, inner)))
        width = 1  # bytes that each character of the widest text in it takes, at most
        if not spelled.isascii() or b"\\u" in spelled:
            width = 4 if b"\xf0" in spelled or _ESCAPED_EMOJI(spelled) else 2
        self.cost = _EACH_ITEM + (1 + width) * len(spelled) + _EACH_VALUE * values
        self.holders = 0
        self.looked = _UNSEARCHED
        self.note: tuple[Any, Any] | None = None


class Container:
    """The members of an object or the elements of an array, in their order.

    Offsets count from the opening bracket, so that a container stays what it is wherever it
    moves, and documents share it. Once read it is never altered, nor are the values.
    ``keys``: the members' names, without duplicates left out; None for an array.
    """

    __slots__ = (
        *("before", "ends", "items", "keys", "length", "notes", "shared", "spelled", "starts"),
        *("value", "value_starts", "values"),
    )

    def __init__(self, keys: list[str] | None = None) -> None:
        self.keys = keys
        self.starts: list[int] = []  #: where each begins, in bytes
        self.value_starts = self.starts if keys is None else []  #: where their values do
        self.ends: list[int] = []  #: behind each, in bytes
        self.values: list[Any] = []  #: what they were read as
        self.items: list[Any] = []
        """Those of an array that is a member of the body; for the body itself an item, an array or
        None (a short value) per member."""
        self.notes: dict[Any, Any] = {}
        """What was made of such an array."""
        self.before: tuple[dict[Any, Any], int] = {}, 0
        """The notes of another array, and how many of the first items both have."""
        self.shared = 0  #: how many bytes it has in common with that
        self.value: Any = None  #: all of it, once it is read
        self.length = 0  #: bytes, brackets included, once it is read
        self.spelled: memoryview  #: of an array that is a member: its bytes

    def place(self, other: Container, upto: int, shift: int) -> None:
        """Take on the places of ``other`` up to that value's beginning, ``shift`` bytes on."""
        moved = shift.__add__
        self.starts.extend(map(moved, other.starts[len(self.starts) : upto + 1]))
        starts = self.value_starts
        starts.extend(map(moved, other.value_starts[len(starts) : upto + 1]))
        self.ends.extend(map(moved, other.ends[len(self.ends) : upto]))

    def begun(self, length: int) -> Container:
        """Return an array with the elements that end within ``length`` bytes of this one."""
        count = bisect_right(self.ends, length)
        if count and self.ends[count - 1] == length and self.spelled[length - 1] not in b'"]}':
            count -= 1  # a number may go on: 12 as 123
        made = Container()
        made.starts = made.value_starts = self.starts[:count]
        made.ends = self.ends[:count]
        made.values = self.values[:count]
        made.items = self.items[:count]
        made.before, made.shared = (self.notes, count), length
        return made

    def texts(self, name: str, patterns: tuple[PathPattern, ...]) -> list[tuple[Path, str]]:
        """Return the texts that ``patterns`` match, each once, with their paths from the body.

        The array is its member ``name``, where each pattern begins. Only those elements are looked
        at that the array before did not have.
        """
        if patterns not in self.notes:
            notes, count = self.before
            known = notes.get(patterns)  # asked once: another thread may be about to note it
            value, start = {name: self.value}, 0 if known is None else count
            found = match_all(value, patterns, str, start)
            for new, old in zip(found, () if known is None else known[1], strict=False):
                new[:0] = old[: bisect_left(old, ((name, count),))]
            texts = found[0] if len(found) == 1 else [*dict(chain.from_iterable(found)).items()]
            self.notes[patterns] = texts, found
        kept: list[tuple[Path, str]] = self.notes[patterns][0]
        return kept

    def find(self, key: str | int) -> int | None:
        """Return the number of the entry that ``key`` names: the last of duplicates."""
        keys = self.keys
        if keys is None:
            return key if isinstance(key, int) and 0 <= key < len(self.values) else None
        if key not in self.value:
            return None
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
