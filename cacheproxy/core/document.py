"""A JSON text together with where its values stand.

The text is read once, by the standard library's C scanner, element by element: no single
call sees the whole of a long ``messages`` array, so that in a thread the others get their turn.
What lies deeper is read again when, and only when, somebody asks for its place.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from cacheproxy.core.paths import Path, PathError, index_in, to_pointer

_MOST_ENTRIES = 100_000
"""Members and elements in the two outermost levels: each costs a microsecond and 200 bytes, and
the garbage collector holds up the other threads while it looks at them all."""
_SPACES = " \t\n\r"
_space = re.compile(r"[ \t\n\r]*").match
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")


class NotUnderstoodError(ValueError):
    """The body is not a JSON object we can read; it goes on as it came."""


class Entry(NamedTuple):
    """One member of an object or element of an array; offsets in characters of the text."""

    key: str | int
    start: int
    value_start: int
    end: int
    value: Any


class Document:
    """A JSON object in its own spelling.

    ``text`` is the whole text, ``value`` what it says (a dict; of duplicate keys the last
    one counts, as in RFC 8259's "most implementations"). Raises NotUnderstoodError.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._entries: dict[Path, list[Entry]] = {}
        self._left = _MOST_ENTRIES
        start = _end_of_space(text, 0)
        if not text.startswith("{", start):
            raise NotUnderstoodError("not a JSON object")
        try:
            members, end = self._read_container((), start, depth=1)
        except (ValueError, StopIteration, RecursionError, IndexError) as error:
            raise NotUnderstoodError(_reason(error)) from None
        if _end_of_space(text, end) != len(text):
            raise NotUnderstoodError("text after the JSON object")
        self._left = sys.maxsize  # what is looked at from here on, somebody asked for
        self.value: dict[str, Any] = {str(entry.key): entry.value for entry in members}

    def get(self, path: Path) -> Any:
        """Return the value at ``path``; raises PathError if there is none."""
        return self.entry(path).value

    def entry(self, path: Path) -> Entry:
        """Return the entry at ``path`` (not empty); raises PathError if there is none."""
        if not path:
            raise PathError("the whole body cannot be edited, only its members")
        found = _pick(self.siblings(path), path[-1])
        if found is None:
            raise PathError(f"nothing at {to_pointer(path)}")
        return found

    def siblings(self, path: Path) -> list[Entry]:
        """Return all entries of the container that ``path`` points into, in their order."""
        for length in range(1, len(path)):
            parent = path[:length]
            if parent in self._entries:
                continue
            entry = _pick(self._entries[parent[:-1]], parent[-1])
            if entry is None or not isinstance(entry.value, dict | list):
                raise PathError(f"nothing at {to_pointer(path)}")
            try:
                self._read_container(parent, entry.value_start, depth=0)
            except RecursionError:  # it was near the limit, and we are called from deeper down
                raise PathError("nested too deeply") from None
        return self._entries[path[:-1]]

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

    def _read_container(self, path: Path, start: int, depth: int) -> tuple[list[Entry], int]:
        """Read the object or array at ``start``, and ``depth`` levels of containers in it."""
        text = self.text
        is_object = text[start] == "{"
        close = "}" if is_object else "]"
        entries: list[Entry] = []
        position = _end_of_space(text, start + 1)
        if text[position] == close:
            self._entries[path] = entries
            return entries, position + 1
        while True:
            entry_start = position
            key: str | int = len(entries)
            if is_object:
                if text[position] != '"':
                    raise ValueError("a member name is missing")
                key, position = scanstring(text, position + 1, True)
                position = _end_of_space(text, position)
                if text[position] != ":":
                    raise ValueError("a colon is missing")
                position = _end_of_space(text, position + 1)
            value_start = position
            if depth and text[position] in "[{":
                inner, position = self._read_container((*path, key), position, depth - 1)
                value: Any = (
                    {entry.key: entry.value for entry in inner}
                    if text[value_start] == "{"
                    else [entry.value for entry in inner]
                )
            else:
                value, position = _scan(text, position)
                if depth:  # an earlier member of this name may have been a container
                    self._entries.pop((*path, key), None)
            entries.append(Entry(key, entry_start, value_start, position, value))
            if len(entries) > self._left:
                raise ValueError("too many members and elements")
            following = text[position]
            if following in _SPACES:
                position = _end_of_space(text, position)
                following = text[position]
            if following == close:
                self._entries[path] = entries
                self._left -= len(entries)
                return entries, position + 1
            if following != ",":
                raise ValueError("a comma is missing")
            position += 1
            if text[position] in _SPACES:
                position = _end_of_space(text, position)


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
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, StopIteration | IndexError):
        return "cut short or not JSON"
    return str(error).partition(":")[0] or "not JSON"
