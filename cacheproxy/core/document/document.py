"""A JSON text together with where its values stand.

The bytes are read once; what lies deeper than two levels is read again when, and only when,
somebody asks for its place.

Agents send the whole conversation each time. So a document may be read with an earlier one at
hand, and only what is new is scanned. A turn of 100 KB takes 20 µs instead of 100 to 130.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from cacheproxy.core.document import reader as jsonreader
from cacheproxy.core.document.compare import Overlap
from cacheproxy.core.document.literals import Literals
from cacheproxy.core.document.pointer import Path, PathError, index_in, to_pointer
from cacheproxy.core.document.rawreader import read_raw
from cacheproxy.core.document.reader import FAULTS, Reader
from cacheproxy.core.document.rereading import Reread, Splice, read_on, read_spliced
from cacheproxy.core.document.spans import Container, Entry

EACH_VALUE = 130
"""Bytes that a value takes beside its text, as measured: 30 for a number, 140 for a member."""


class Document:
    """A JSON object in its own spelling.

    ``body`` is the whole text in UTF-8, ``value`` what it says (a dict; of duplicate keys the
    last one counts, as in RFC 8259's "most implementations"), ``literals`` looks for texts in it.
    ``root`` is the object, ``start`` where it stands. ``shared``: what the body shares with an
    earlier document, ``splices``: all that it has not in common with that one, if that is known;
    whatever that was, the document is the same, but ``scanned`` says how many bytes had to be
    scanned, ``prefix`` and ``suffix`` how many it has in common with the earlier one.

    Raises NotUnderstoodError.
    """

    def __init__(
        self,
        body: bytes,
        shared: Overlap | None = None,
        literals: Literals | None = None,
        splices: tuple[Splice, ...] = (),
    ) -> None:
        self.body = body
        self.literals = literals or Literals(body)
        self._deeper: dict[Path, tuple[Container, int]] = {}
        self._values: int | None = None
        self._source: tuple[Overlap, tuple[Splice, ...]] | None = None
        self.prefix, self.suffix = (0, 0) if shared is None else shared[1:]
        if splices and shared is not None:
            self._source = shared, splices
        elif shared is not None:
            self._values = _values_after(body, shared, splices)
        found = None if shared is None else _reread(body, shared, splices)
        self.start, self.root, self.scanned = found or _read(body)
        self.value: dict[str, Any] = self.root.value

    @property
    def values(self) -> int:
        """How many values there are, at most.

        Of a body that nothing is known of they are counted when they are asked for, after it has
        been sent: 80 KB take 60 µs. So are those of one that was edited, from what it was before.
        """
        if self._values is None:
            source, body = self._source, self.body
            self._values = values_in(body) if source is None else _values_after(body, *source)
            self._source = None
        return self._values

    @property
    def cost(self) -> int:
        """Bytes that it takes, roughly: 2 to 5 times the body; 50 times where all is tiny."""
        return 3 * len(self.body) + EACH_VALUE * self.values

    def get(self, path: Path) -> Any:
        """Return the value at ``path``; raises PathError if there is none."""
        return self.entry(path).value

    def inner(self, name: str) -> Container | None:
        """Return the container that is the member ``name``; None if that is none."""
        number = self.root.find(name)
        return None if number is None else self.root.inner[number]

    def spelled(self, name: str) -> bytes:
        """Return the bytes of the value of the member ``name``, which is there."""
        number = self.root.find(name)
        assert number is not None
        return self.body[
            self.start + self.root.value_starts[number] : self.start + self.root.ends[number]
        ]

    def text(self, entry: Entry) -> str:
        """Return how the value of ``entry`` is spelt."""
        return self.body[entry.value_start : entry.end].decode()

    def entry(self, path: Path) -> Entry:
        """Return the entry at ``path`` (not empty); raises PathError if there is none."""
        if not path:
            raise PathError("the whole body cannot be edited, only its members")
        container, opening = self._container(path)
        number = container.find(path[-1])
        if number is None:
            raise PathError(f"nothing at {to_pointer(path)}")
        return container.entry(number, opening)

    def siblings(self, path: Path) -> list[Entry]:
        """Return all entries of the container that ``path`` points into, in their order."""
        container, opening = self._container(path)
        return [container.entry(number, opening) for number in range(len(container.values))]

    def resolve(self, segments: Iterable[str]) -> Path:
        """Turn pointer segments into a path with real indexes; raises PathError."""
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

    def _container(self, path: Path) -> tuple[Container, int]:
        """Return the container that ``path`` points into, and its place; raises PathError."""
        if len(path) == 1:
            return self.root, self.start
        if len(path) == 2:
            number = self.root.find(path[0])
            container = None if number is None else self.root.inner[number]
            if number is None or container is None:
                raise PathError(f"nothing at {to_pointer(path)}")
            return container, self.start + self.root.value_starts[number]
        for length in range(2, len(path)):  # from outside, so that none is read within another
            if path[:length] not in self._deeper:
                self._deeper[path[:length]] = self._deep(path[:length], path)
        return self._deeper[path[:-1]]

    def _deep(self, place: Path, path: Path) -> tuple[Container, int]:
        """Read the container at ``place``, on the way to ``path``; those around it have been."""
        holder, opening = self._container(place)
        number = holder.find(place[-1])
        if number is None or not isinstance(holder.values[number], dict | list):
            raise PathError(f"nothing at {to_pointer(path)}")
        start, end = opening + holder.value_starts[number], opening + holder.ends[number]
        try:
            return Reader(self.body[start:end], sys.maxsize).read(0, is_root=False), start
        except RecursionError:  # it was near the limit, and we are called from deeper down
            raise PathError("nested too deeply") from None


def values_in(text: bytes) -> int:
    """Return how many values there are in a JSON text, at most."""
    return len(text) - len(text.translate(None, b",[{"))


def _read(body: bytes) -> Reread:
    root = read_raw(body)
    return Reread(*jsonreader.read(body), len(body)) if root is None else Reread(0, root, len(body))


def _reread(body: bytes, shared: Overlap, splices: tuple[Splice, ...]) -> Reread | None:
    """Read ``body`` with an earlier one at hand; None if that is of no help."""
    try:
        earlier = shared.earlier
        found = read_spliced(body, earlier.start, earlier.root, splices) if splices else None
        return found or read_on(body, shared)
    except FAULTS:  # the reason is found where all is read
        return None


def _values_after(body: bytes, shared: Overlap, splices: tuple[Splice, ...]) -> int:
    """Return how many values ``body`` has, from how many an earlier one has."""
    earlier, prefix, suffix = shared
    was, count = earlier.body, earlier.values
    if not splices:
        new, old = body[prefix : len(body) - suffix], was[prefix : len(was) - suffix]
        return count + values_in(new) - values_in(old)
    for start, end, new in splices:
        count += values_in(new) - values_in(was[start:end])
    return count
