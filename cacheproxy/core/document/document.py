"""A JSON text together with the places of its values.

The bytes are read once. Values deeper than two levels are read again when their place is asked for.
With a memo, only new values are scanned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import chain, compress
from typing import Any, NamedTuple

from cacheproxy.core.document.memo import Memo
from cacheproxy.core.document.pointer import (
    Path,
    PathError,
    Places,
    index_in,
    match_all,
    to_pointer,
)
from cacheproxy.core.document.reader import Reader
from cacheproxy.core.document.spans import Container, Entry, Frame, Item

_IS_ARRAY = Container.__instancecheck__


class Splice(NamedTuple):
    """A replacement of some of a body's bytes."""

    start: int  #: offset of the first byte replaced
    end: int  #: offset behind the last byte replaced
    new: bytes  #: new bytes


class Document:
    """A JSON object in its own spelling.

    ``body`` is the whole text in UTF-8, ``value`` its value (a dict; of duplicate keys the last one
    counts, as in RFC 8259's "most implementations"), ``start`` the offset of the object. ``items``
    are its long values and arrays by the names of their members, ``frame`` the text around them.
    ``memo``: parsed values of earlier bodies; they change nothing in the document but ``scanned``,
    the number of bytes that had to be scanned. ``most``: bytes to scan at most. ``edited``: an
    earlier document from which edits made ``body``. Values spelled as there, or as in the last
    similar body that the memo knows, are not read again. ``notes``: data that others derived from
    the whole document.

    Raises NotUnderstoodError; TooMuchError if more than ``most`` bytes are new.
    """

    def __init__(
        self,
        body: bytes,
        memo: Memo | None = None,
        most: int = sys.maxsize,
        edited: Document | None = None,
    ) -> None:
        self.body = body
        self.notes: dict[Any, Any] = {}
        self._deeper: dict[int, Container] = {}
        self._root = starts = None
        reader = Reader(body, memo, most)
        like: Document | None = memo.like(body) if edited is None and memo is not None else edited
        if like is not None and like.frame.is_unique:
            frame, items, value = like.frame, like.items.copy(), like.value.copy()
            starts = reader.read_like(frame, items, value)
            if starts is not None and memo is not None and edited is None:
                memo.touch(items.values())
        if starts is None:
            reader = Reader(body, memo, most)
            start, self._root = reader.read()
            frame, value = Frame(body, start, self._root), self._root.value
            items = {name: self._root.items[one] for name, one in frame.numbers.items()}
            starts = [start + self._root.value_starts[one] for one in frame.numbers.values()]
        self.frame: Frame = frame
        self.items: dict[str, Item] = items
        self.value: dict[str, Any] = value
        self._starts = starts
        self.start, self.scanned = frame.start, reader.scanned
        if memo is not None:
            memo.saw(self)
        arrays: Any = compress(items.items(), map(_IS_ARRAY, items.values()))
        self.array: Callable[..., Container | None] = dict(arrays).get
        """Return the array of a member, None if its value is no array."""

    @property
    def root(self) -> Container:
        """The object itself with the places of all its members."""
        if self._root is None:
            self._root = self.frame.members(self._starts, self.items.values(), self.value)
        return self._root

    def get(self, path: Path) -> Any:
        """Return the value at ``path``; raises PathError if there is none."""
        return self.entry(path).value

    def start_of(self, name: str) -> int:
        """Return the offset in the body of the item or array ``name``, which must exist."""
        return self._starts[[*self.items].index(name)]

    def texts(self, places: Places) -> list[tuple[Path, str]]:
        """Return ``(path, text there)`` for every text at ``places``, each once.

        In an array of messages, those that the array before had too are not searched again. If
        there is nothing new at all, it is the same list.
        """
        value, found = self.value, list[Any]()
        for name in filter(value.__contains__, places):
            array, own = self.array(name), places[name]
            found += match_all(value, own, str) if array is None else [array.texts(str(name), own)]
        if None in places:
            found += match_all(value, places[None], str)
        return found[0] if len(found) == 1 else [*dict(chain.from_iterable(found)).items()]

    def entry(self, path: Path) -> Entry:
        """Return the entry at ``path`` (not empty); raises PathError if there is none."""
        if not path:
            raise PathError("the whole body cannot be edited, only its members")
        container, opening = self.container(path)
        number = container.find(path[-1])
        if number is None:
            raise PathError(f"nothing at {to_pointer(path)}")
        return container.entry(number, opening)

    def short(self) -> bytes:
        """Return the parts of the body that are not stored as items: names, and short values."""
        return b"\0".join(self.frame.texts)

    def siblings(self, path: Path) -> list[Entry]:
        """Return all entries of the container in which ``path`` ends, in their order."""
        container, opening = self.container(path)
        return [container.entry(number, opening) for number in range(len(container.values))]

    def resolve(self, segments: Iterable[str]) -> Path:
        """Return pointer segments as a path with integer indexes; raises PathError."""
        path: Path = ()
        value: Any = self.value
        for segment in segments:
            step: str | int | None = None
            if isinstance(value, dict):
                step = segment if segment in value else None
            elif isinstance(value, list):
                step = index_in(segment, value)
            if step is None:
                raise PathError(f"nothing at {to_pointer((*path, segment))}")
            value = value[step]
            path += (step,)
        return path

    def container(self, path: Path) -> tuple[Container, int]:
        """Return the container in which ``path`` ends, and its offset; raises PathError."""
        array = self.array(path[0]) if path[1:] else None
        if array is None:
            container, opening, steps = self.root, self.start, path[:-1]
        else:  # as nearly always: then the members' places are not needed
            container, opening, steps = array, self.start_of(str(path[0])), path[1:-1]
        for step in steps:  # from outside, so that none is read within another
            number = container.find(step)
            if number is None or not isinstance(container.values[number], dict | list):
                raise PathError(f"nothing at {to_pointer(path)}")
            inner = container.items[number]
            opening += container.value_starts[number]
            if not isinstance(inner, Container):
                inner = self._deeper.get(opening)
            if inner is None:
                try:
                    inner = self._deeper[opening] = Reader(self.body).deep(opening)
                except RecursionError:  # it was near the limit, and we are called from deeper down
                    raise PathError("nested too deeply") from None
            container = inner
        return container, opening
