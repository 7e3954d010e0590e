"""Reads JSON containers with the standard library's C scanner, element by element.

No single call sees the whole of a long ``messages`` array, so that in a thread the others get
their turn.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from cacheproxy.core.document.spans import Container

MOST_ENTRIES = 100_000
"""Members and elements in the two outermost levels: each costs a microsecond and 200 bytes, and
the garbage collector holds up the other threads while it looks at them all."""
_SPACES = " \t\n\r"
_space = re.compile(r"[ \t\n\r]*").match
_plain_name = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
FAULTS = (ValueError, StopIteration, RecursionError, IndexError)
"""What reading raises where the text is no JSON object, or is cut off."""


class NotUnderstoodError(ValueError):
    """The body is not a JSON object we can read; it goes on as it came."""


class Join(NamedTuple):
    """Where all that follows is known: at ``at``, an entry of an earlier root begins.

    It is the root's entry ``member``, or if ``inner`` is the container that this one holds, the
    entry ``number`` in there.
    """

    at: int
    root: Container
    inner: Container | None
    member: int
    number: int


class Reader:
    """Reads containers in a piece of a body.

    A piece that is cut off, before ``join`` say, raises one of FAULTS, as does what is not
    UTF-8. ``most``: entries that all containers together may have.
    """

    def __init__(self, piece: bytes, most: int, join: Join | None = None) -> None:
        self.text = piece.decode()
        self.has_joined = False
        self._is_ascii = len(self.text) == len(piece)
        self._more = 0
        """How many bytes more than characters the text has up to where it was read."""
        self._left = most
        self._join = join

    def read(self, opening: int, made: Container | None = None, *, is_root: bool) -> Container:
        """Read the container at byte ``opening``; if ``is_root``, also those in it.

        ``made``: it is begun already; the piece goes on behind its last entry.
        """
        if made is not None and self.has_joined:
            return self._take_rest_of_root(made)
        text, offset = self.text, self._more - opening
        if made is None:
            made = Container(is_object=text[-offset] == "{")
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
        return self._take_rest_of_root(made)

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
        """Return where in ``made`` the earlier document may be joined; -1 if nowhere."""
        join = self._join
        if join is None or is_root is not (join.inner is None):
            return -1
        if join.inner is not None and (join.inner.keys is None) is not (made.keys is None):
            return -1
        return join.at

    def _take_rest(self, made: Container, start: int) -> Container:
        """Take over what follows, first of all an entry that is to start at ``start``."""
        assert self._join is not None
        _, root, inner, member, number = self._join
        source, number = (root, member) if inner is None else (inner, number)
        made.take_rest(source, number, start - source.starts[number])
        self.has_joined = True
        return made

    def _take_rest_of_root(self, made: Container) -> Container:
        """Take over what follows the member in which the earlier document was joined."""
        assert self._join is not None
        root, member = self._join.root, self._join.member
        made.take_rest(root, member + 1, made.ends[-1] - root.ends[member])
        return made

    def _name(self, position: int) -> tuple[str, int]:
        """Read the name of a member; return it, and where its value starts."""
        text = self.text
        plain = _plain_name(text, position)
        if plain is not None:
            if not self._is_ascii:
                self._count(position, plain.end())
            return plain[1], plain.end()
        if text[position] != '"':
            raise ValueError("a member name is missing")
        name, end = scanstring(text, position + 1, True)
        if not self._is_ascii:
            self._count(position, end)
        if text[end] != ":":
            end = _end_of_space(text, end)
            if text[end] != ":":
                raise ValueError("a colon is missing")
        position = end + 1
        return name, _end_of_space(text, position) if text[position] in _SPACES else position


def value_of(piece: bytes) -> Any:
    """Return the value whose text is ``piece``; raises one of FAULTS."""
    text = piece.decode()
    value, end = _scan(text, 0)
    if end != len(text):
        raise ValueError("text after a value")
    return value


def read(body: bytes) -> tuple[int, Container]:
    """Return where the object stands in ``body``, and the object. Raises NotUnderstoodError."""
    try:
        reader = Reader(body, MOST_ENTRIES)
        start = _end_of_space(reader.text, 0)
        if not reader.text.startswith("{", start):
            raise ValueError("not a JSON object")
        root = reader.read(start, is_root=True)
        reader.end(start + root.length)
    except FAULTS as error:
        raise NotUnderstoodError(_reason(error)) from None
    return start, root


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
