"""A JSON text together with where its values stand.

The bytes are read once, by the standard library's C scanner, element by element: no single call
sees the whole of a long ``messages`` array, so that in a thread the others get their turn. What
lies deeper is read again when, and only when, somebody asks for its place.

Agents send the whole conversation each time. So a document may be read with an earlier one at
hand: of what both have at their beginning and their end, the values and their places are taken
over, and only what is new between is scanned. A turn of 100 KB takes 25 µs instead of 400.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from cacheproxy.core.literals import Literals
from cacheproxy.core.overlap import common_prefix, common_suffix
from cacheproxy.core.paths import Path, PathError, index_in, to_pointer

_MOST_ENTRIES = 100_000
"""Members and elements in the two outermost levels: each costs a microsecond and 200 bytes, and
the garbage collector holds up the other threads while it looks at them all."""
EACH_VALUE = 130
"""Bytes that a value takes beside its text, as measured: 30 for a number, 140 for a member."""
_SPACES = " \t\n\r"
_space = re.compile(r"[ \t\n\r]*").match
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")
_FAULTS = (ValueError, StopIteration, RecursionError, IndexError)


class NotUnderstoodError(ValueError):
    """The body is not a JSON object we can read; it goes on as it came."""


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


class Overlap(NamedTuple):
    """How many bytes a body has in common with an earlier document, at its start and its end."""

    earlier: Document
    prefix: int
    suffix: int


def overlap(body: bytes, earlier: Document) -> Overlap:
    """Return what ``body`` shares with ``earlier``; linear, a tenth of the time of a search."""
    prefix = common_prefix(body, earlier.body)
    most = min(len(body), len(earlier.body)) - prefix
    return Overlap(earlier, prefix, common_suffix(body, earlier.body, most))


class Document:
    """A JSON object in its own spelling.

    ``body`` is the whole text in UTF-8, ``value`` what it says (a dict; of duplicate keys the
    last one counts, as in RFC 8259's "most implementations"), ``literals`` looks for texts in it.
    ``root`` is the object, ``start`` where it stands. ``shared``: what the body shares with an
    earlier document; whatever that was, the document is the same, but ``scanned`` says how many
    bytes had to be scanned. ``values``: how many there are, at most.

    Raises NotUnderstoodError.
    """

    def __init__(
        self, body: bytes, shared: Overlap | None = None, literals: Literals | None = None
    ) -> None:
        self.body = body
        self.literals = literals or Literals(body)
        self._deeper: dict[Path, list[Entry]] = {}
        try:
            found = _read_on(body, shared) if shared is not None else None
        except _FAULTS:  # the reason is found where all is read
            found = None
        self.start, self.root, self.scanned = found or (*_read(body), len(body))
        self.values: int = (
            values_in(body)
            if shared is None
            else shared.earlier.values + values_in(_new(body, shared)) - values_in(_old(shared))
        )
        self.value: dict[str, Any] = self.root.value

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
        if len(path) > 2:
            found = _pick(self.siblings(path), path[-1])
        else:
            container, opening = self._container(path)
            number = container.find(path[-1])
            found = None if number is None else container.entry(number, opening)
        if found is None:
            raise PathError(f"nothing at {to_pointer(path)}")
        return found

    def siblings(self, path: Path) -> list[Entry]:
        """Return all entries of the container that ``path`` points into, in their order."""
        if len(path) < 3:
            container, opening = self._container(path)
            return [container.entry(number, opening) for number in range(len(container.values))]
        for length in range(2, len(path)):
            parent = path[:length]
            if parent in self._deeper:
                continue
            entry = (
                self.entry(parent) if length == 2 else _pick(self._deeper[parent[:-1]], parent[-1])
            )
            if entry is None or not isinstance(entry.value, dict | list):
                raise PathError(f"nothing at {to_pointer(path)}")
            try:
                found = _Reader(self.body[entry.value_start : entry.end], sys.maxsize).read(
                    0, is_root=False
                )
            except RecursionError:  # it was near the limit, and we are called from deeper down
                raise PathError("nested too deeply") from None
            self._deeper[parent] = [
                found.entry(number, entry.value_start) for number in range(len(found.values))
            ]
        return self._deeper[path[:-1]]

    def resolve(self, segments: Iterable[str]) -> Path:
        """Turn pointer segments into a path with real indexes; raises PathError."""
        path: Path = ()
        value: Any = self.value
        for segment in segments:
            step: str | int = segment
            if isinstance(value, list):
                index = index_in(segment, value)
                if index is None:
                    raise PathError(f"nothing at {to_pointer((*path, segment))}")
                step = index
            elif not isinstance(value, dict) or segment not in value:
                raise PathError(f"nothing at {to_pointer((*path, segment))}")
            value = value[step]
            path = (*path, step)
        return path

    def _container(self, path: Path) -> tuple[Container, int]:
        """Return the container that ``path``, of one or two steps, points into, and its place."""
        if len(path) == 1:
            return self.root, self.start
        number = self.root.find(path[0])
        container = None if number is None else self.root.inner[number]
        if number is None or container is None:
            raise PathError(f"nothing at {to_pointer(path)}")
        return container, self.start + self.root.value_starts[number]


class _Join(NamedTuple):
    """Where all that follows is known: at ``at``, an entry of an earlier root begins.

    It is the root's entry ``member``, or entry ``number`` in the container that this one holds.
    """

    at: int
    root: Container
    member: int
    number: int | None = None


class _Reader:
    """Reads containers in a piece of a body.

    A piece that is cut off, before ``join`` say, raises one of _FAULTS, as does what is not
    UTF-8. ``most``: entries that all containers together may have.
    """

    def __init__(self, piece: bytes, most: int, join: _Join | None = None) -> None:
        self.text = piece.decode()
        self.has_joined = False
        self._is_ascii = self.text.isascii()
        self._more = 0
        """How many bytes more than characters the text has up to where it was read."""
        self._left = most
        self._join = join

    def read(self, opening: int, made: Container | None = None, *, is_root: bool) -> Container:
        """Read the container at byte ``opening``; if ``is_root``, also those in it.

        ``made``: it is begun already; the piece goes on behind its last entry.
        """
        text, offset = self.text, self._more - opening
        if made is None:
            made = Container(None, 0, is_object=text[-offset] == "{")
        position = (made.ends[-1] if made.ends else 1) - offset
        keys, values, close = made.keys, made.values, "]" if made.keys is None else "}"
        joins_at = self._joins_at(made, is_root=is_root)
        while not self.has_joined:
            if text[position] in _SPACES:
                position = _end_of_space(text, position)
            if values and text[position] == ",":
                position += 1
                if text[position] in _SPACES:
                    position = _end_of_space(text, position)
            elif text[position] == close:
                made.close(position + 1 + offset)
                self._left -= len(values)
                return made
            elif values:
                raise ValueError("a comma is missing")
            if position + self._more == joins_at:
                return self._take_rest(made, position + offset)
            made.starts.append(position + offset)
            if keys is not None:
                key, position = self._name(position)
                keys.append(key)
                offset = self._more - opening
                made.value_starts.append(position + offset)
            if is_root and text[position] in "[{":
                inner = self.read(position + self._more, is_root=False)
                values.append(inner.value)
                made.inner.append(inner)
                made.ends.append(position + offset + inner.length)
                offset = self._more - opening
                position = made.ends[-1] - offset
            else:
                start = position
                value, position = _scan(text, position)
                if not self._is_ascii:
                    self._count(start, position)
                    offset = self._more - opening
                values.append(value)
                made.ends.append(position + offset)
                if is_root:
                    made.inner.append(None)
            if len(values) > self._left:
                raise ValueError("too many members and elements")
        return self._rest_of_root(made)

    def _count(self, start: int, end: int) -> None:
        """Note how many bytes more than characters there are between two positions."""
        piece = self.text[start:end]
        if not piece.isascii():
            self._more += len(piece.encode()) - len(piece)

    def end(self, behind: int) -> None:
        """Raise ValueError if there is more than spaces from byte ``behind`` on."""
        if _end_of_space(self.text, behind - self._more) != len(self.text):
            raise ValueError("text after the JSON object")

    def _joins_at(self, made: Container, *, is_root: bool) -> int:
        join = self._join
        if join is None or is_root is not (join.number is None):
            return -1
        source = join.root if is_root else join.root.inner[join.member]
        same = source is not None and (source.keys is None) is (made.keys is None)
        return join.at if same else -1

    def _take_rest(self, made: Container, start: int) -> Container:
        assert self._join is not None
        _, root, member, number = self._join
        source = root if number is None else root.inner[member]
        assert source is not None
        number = member if number is None else number
        made.take_rest(source, number, start - source.starts[number])
        self.has_joined = True
        return made

    def _rest_of_root(self, made: Container) -> Container:
        """Take over what follows the member in which the earlier document was joined."""
        assert self._join is not None
        _, root, member, _ = self._join
        made.take_rest(root, member + 1, made.ends[-1] - root.ends[member])
        return made

    def _name(self, position: int) -> tuple[str, int]:
        """Read the name of a member; return it, and where its value starts."""
        text = self.text
        if text[position] != '"':
            raise ValueError("a member name is missing")
        name, end = scanstring(text, position + 1, True)
        if not self._is_ascii:
            self._count(position, end)
        position = _end_of_space(text, end)
        if text[position] != ":":
            raise ValueError("a colon is missing")
        return name, _end_of_space(text, position + 1)


def _read(body: bytes) -> tuple[int, Container]:
    """Return where the object stands in ``body``, and the object. Raises NotUnderstoodError."""
    try:
        reader = _Reader(body, _MOST_ENTRIES)
        start = _end_of_space(reader.text, 0)
        if not reader.text.startswith("{", start):
            raise ValueError("not a JSON object")
        root = reader.read(start, is_root=True)
        reader.end(start + root.length)
    except _FAULTS as error:
        raise NotUnderstoodError(_reason(error)) from None
    return start, root


def _read_on(body: bytes, shared: Overlap) -> tuple[int, Container, int]:
    """Do the same with what is known of ``body``; the third is how many bytes were scanned.

    Raises one of _FAULTS where the body is no JSON object, or is built too differently to tell.
    """
    old, start, prefix = shared.earlier.root, shared.earlier.start, shared.prefix
    if prefix <= start:
        raise ValueError("nothing is known of its beginning")
    count = _settled(old.ends, prefix - start, body[prefix - 1])
    root = Container(old, count, is_object=True)
    at = start + (root.ends[-1] if count else 1)
    begun = old.inner[count] if count < len(old.inner) else None
    opening = start + old.value_starts[count] if begun is not None else 0
    if begun is not None and opening < prefix:
        known = _settled(begun.ends, prefix - opening, body[prefix - 1])
        begun = Container(begun, known, is_object=begun.keys is not None)
        at = opening + (begun.ends[-1] if known else 1)
    else:
        begun = None
    join = _join(body, shared)
    end = len(body) if join is None else join.at
    reader = _Reader(body[at : end + 1], _MOST_ENTRIES, join and join._replace(at=end - at))
    if begun is not None:
        inner = reader.read(opening - at, begun, is_root=False)
        root.take(old, slice(count, count + 1), 0)
        root.values[-1], root.inner[-1] = inner.value, inner
        root.ends[-1] = root.value_starts[-1] + inner.length
    root = reader.read(start - at, root, is_root=True)
    if not reader.has_joined:
        reader.end(start - at + root.length)
    if len(root.values) + sum(len(each.values) for each in root.inner if each) > _MOST_ENTRIES:
        raise ValueError("too many members and elements")
    return start, root, end - at


def _settled(ends: list[int], length: int, last: int) -> int:
    """Return how many entries end within ``length`` bytes, the ``last`` of which is given.

    A number that ends there may yet go on: 12 as 123.
    """
    count = bisect_right(ends, length)
    return count - 1 if count and ends[count - 1] == length and last not in b'"]}' else count


def _join(body: bytes, shared: Overlap) -> _Join | None:
    """Return the first entry of the earlier document that lies in what both end with."""
    earlier, _, suffix = shared
    root, start = earlier.root, earlier.start
    shift = len(body) - len(earlier.body)
    begins = len(earlier.body) - suffix
    member = bisect_left(root.starts, begins - start)
    inner = root.inner[member - 1] if member else None
    if inner is not None:
        opening = start + root.value_starts[member - 1]
        number = bisect_left(inner.starts, begins - opening)
        if number < len(inner.starts):
            return _Join(opening + inner.starts[number] + shift, root, member - 1, number)
    if member < len(root.starts):
        return _Join(start + root.starts[member] + shift, root, member)
    return None


def _shifted(offsets: list[int], shift: int) -> list[int]:
    return [offset + shift for offset in offsets] if shift else offsets


def values_in(text: bytes) -> int:
    """Return how many values there are in a JSON text, at most."""
    return len(text) - len(text.translate(None, b",[{"))


def _new(body: bytes, shared: Overlap) -> bytes:
    return body[shared.prefix : len(body) - shared.suffix]


def _old(shared: Overlap) -> bytes:
    return _new(shared.earlier.body, shared)


def offsets_in_string(literal: str, positions: list[int]) -> list[int]:
    r"""Map ascending character ``positions`` of a decoded string into its JSON ``literal``.

    ``literal`` is the text between the quotes. An escape counts as one character, a pair of
    surrogate escapes (``\ud83d\ude00``) as one too (RFC 8259, section 7).
    """
    if "\\" not in literal:
        return positions
    mapped: list[int] = []
    wanted = iter(positions)
    want = next(wanted, None)
    raw = decoded = 0
    escapes = _ESCAPE.finditer(literal)
    pending = next(escapes, None)
    while want is not None:
        plain = (pending.start() if pending else len(literal)) - raw
        if pending is None or want <= decoded + plain:
            mapped.append(raw + want - decoded)
            want = next(wanted, None)
            continue
        raw, decoded = pending.end(), decoded + plain + 1
        following = next(escapes, None)
        if following is not None and _is_pair(pending, following):
            raw = following.end()
            following = next(escapes, None)
        pending = following
    return mapped


def _is_pair(first: re.Match[str], second: re.Match[str]) -> bool:
    if first.end() != second.start() or not first[1] or not second[1]:
        return False
    return 0xD800 <= int(first[1], 16) < 0xDC00 <= int(second[1], 16) < 0xE000


def _pick(entries: list[Entry], key: str | int) -> Entry | None:
    if isinstance(key, int) and 0 <= key < len(entries):
        return entries[key] if entries[key].key == key else None
    return next((entry for entry in reversed(entries) if entry.key == key), None)


def _end_of_space(text: str, position: int) -> int:
    found = _space(text, position)
    assert found is not None
    return found.end()


def _reason(error: BaseException) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, StopIteration | IndexError):
        return "cut short or not JSON"
    return str(error).partition(":")[0] or "not JSON"
