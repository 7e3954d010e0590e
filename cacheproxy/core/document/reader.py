"""Reads JSON containers with the standard library's C scanner, element by element.

No single call reads the whole of a long ``messages`` array, so that other threads can run in
between. Values in the memo are not scanned again.
"""

from __future__ import annotations

import json
import re
import sys
from codecs import utf_8_decode
from typing import Any

from cacheproxy.core.document.memo import Memo
from cacheproxy.core.document.spans import Container, SpelledValue

MOST_ENTRIES = 100_000
"""Members of the body, and elements of its arrays: each costs a microsecond and 200 bytes, and
the garbage collector holds up the other threads while it looks at them all."""
MOST_LISTED = 250_000
"""Elements of all lists in these. Those of a message are blocks of the prompt, each of which costs
some microseconds and 300 bytes."""
_WINDOW = 4 << 10
"""Bytes decoded at a time, and eight times as many where a value is longer."""
_LEAST = 64
"""Bytes of a member that is searched by itself."""
_SPACES = b" \t\n\r"
_space = re.compile(rb"[ \t\n\r]*").match
_plain_name = re.compile(rb'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_FAULTS = (ValueError, StopIteration, RecursionError, IndexError)
_COMMA, _COLON, _QUOTE, _ARRAY, _OBJECT = b',:"[{'
_OPENING = b'"[{'


class NotUnderstoodError(ValueError):
    """The body is not a JSON object we can read; it goes on as it came."""


class TooMuchError(Exception):
    """More of the body is new than was to be scanned."""


class Reader:
    """Reads the containers of ``body``, with what ``memo`` knows; ``scanned``: bytes it did not.

    ``most``: bytes to be scanned; beyond them TooMuchError is raised, and a second reader finds
    what this one has read in the memo.
    """

    def __init__(self, body: bytes, memo: Memo | None = None, most: int = sys.maxsize) -> None:
        self._body = body
        self._memo = memo
        self._most = most
        self._left = MOST_ENTRIES
        self._left_in_lists = MOST_LISTED
        self.scanned = 0

    def read(self) -> tuple[int, Container]:
        """Return where the object stands in the body, and the object.

        Raises NotUnderstoodError or TooMuchError.
        """
        try:
            start = self._after_space(0)
            if not self._body.startswith(b"{", start):
                self._body.decode()
                raise ValueError("not a JSON object")
            root = Container(is_object=True)
            self._fill(root, start, self._member)
            if self._after_space(start + root.length) != len(self._body):
                raise ValueError("text after the JSON object")
        except _FAULTS as error:
            raise NotUnderstoodError(_reason(error)) from None
        return start, root

    def reread(self, before: Container, start: int, grown: dict[int, int]) -> Container:
        """Return the object at ``start``, which is ``before`` but for some of its members.

        ``grown``: by how many bytes, by their numbers. Only these are read. Raises
        NotUnderstoodError or TooMuchError.
        """
        made = Container(is_object=True)
        made.keys, made.values, made.items = before.keys, before.values[:], before.items[:]
        shift = 0
        try:
            for number, end in enumerate(before.ends):
                value_start = before.value_starts[number] + shift
                made.starts.append(before.starts[number] + shift)
                made.value_starts.append(value_start)
                if number in grown:
                    shift += grown[number]
                    value, found, made.items[number] = self._member(start + value_start)
                    made.values[number] = value
                    if found != start + end + shift:
                        raise ValueError("text after a value")
                made.ends.append(end + shift)
        except _FAULTS as error:
            raise NotUnderstoodError(_reason(error)) from None
        made.close(before.length + shift)
        return made

    def deep(self, opening: int) -> Container:
        """Return the container at ``opening``, which was read before; raises RecursionError."""
        self._left = sys.maxsize
        made = Container(is_object=self._body[opening] == _OBJECT)
        self._fill(made, opening, self._plain)
        return made

    def _fill(self, made: Container, opening: int, take: Any) -> None:
        """Read the rest of ``made``, each value with ``take``."""
        body, keys, values = self._body, made.keys, made.values
        starts, ends, items = made.starts, made.ends, made.items
        close = b"]" if keys is None else b"}"
        at = opening + (ends[-1] if ends else 1)
        self._left -= len(values)
        while True:
            if body[at] in _SPACES:
                at = self._after_space(at)
            if values and body[at] == _COMMA:
                at += 1
                if body[at] in _SPACES:
                    at = self._after_space(at)
            elif body[at] == close[0]:
                break
            elif values:
                raise ValueError("a comma is missing")
            starts.append(at - opening)
            if keys is not None:
                key, at = self._name(at)
                keys.append(key)
                made.value_starts.append(at - opening)
            value, at, item = take(at)
            values.append(value)
            ends.append(at - opening)
            items.append(item)
            self._left -= 1
            if self._left < 0:
                raise ValueError("too many members and elements")
        made.close(at + 1 - opening)

    def _member(self, at: int) -> tuple[Any, int, SpelledValue | Container | None]:
        if self._body[at] == _ARRAY:
            array = self._array(at)
            return array.value, at + array.length, array
        if self._body[at] not in _OPENING:
            return self._plain(at)
        value, end, item = self._element(at)
        if self._memo is not None:
            self._memo.keep_item(item)
        return value, end, item if end - at >= _LEAST else None

    def _array(self, at: int) -> Container:
        """Return the array at ``at``, the very same if it is known."""
        body, memo = self._body, self._memo
        known, length = (None, 0) if memo is None else memo.array(body, at)
        if known is not None and length == known.length:
            self._left -= len(known.values)
            return known
        made = Container(is_object=False) if known is None else known.begun(length)
        try:
            self._fill(made, at, self._element)
        except TooMuchError:
            if made.ends:
                made.close(made.ends[-1] + 1)  # the bracket is yet to come
                self._keep(made, at, made.length - 1, known)
            raise
        self._keep(made, at, made.length, known)
        return made

    def _keep(self, made: Container, at: int, length: int, known: Container | None) -> None:
        """Keep the array at ``at``, of which ``length`` bytes have been read."""
        part = memoryview(self._body)[at : at + length]
        # A part keeps the whole body: a small one must not.
        made.spelled = part if 2 * length > len(self._body) else memoryview(bytes(part))
        if self._memo is not None:
            self._memo.keep_array(made, known)

    def _element(self, at: int) -> tuple[Any, int, SpelledValue]:
        body, memo = self._body, self._memo
        if memo is not None and body[at] in _OPENING:
            known = memo.item(body, at)
            if known is not None:
                return known.value, at + len(known.spelled), known
        value, end, _ = self._plain(at)
        if len(body) > 2 * MOST_LISTED:  # else there is no room for so many
            self._left_in_lists -= _listed(value, self._left_in_lists)
            if self._left_in_lists < 0:
                raise ValueError("too many elements in its lists")
        return value, end, SpelledValue(body[at:end], value)

    def _plain(self, at: int) -> tuple[Any, int, None]:
        """Return the value at ``at``, and where it ends."""
        body = self._body
        size = _WINDOW if body[at] in _OPENING else _LEAST
        while True:
            is_rest = at + size >= len(body)
            text, _ = utf_8_decode(body[at : at + size], "strict", is_rest)
            try:
                value, end = _scan(text, 0)
            except (ValueError, StopIteration, IndexError):
                if is_rest:
                    raise
            else:
                if is_rest or end < len(text) - 2:  # 1e+5 may be cut behind its 1, e or +
                    end = end if text.isascii() else len(text[:end].encode())
                    self.scanned += end
                    if self.scanned > self._most:
                        raise TooMuchError
                    return value, at + end, None
            size *= 8

    def _name(self, at: int) -> tuple[str, int]:
        """Read the name of a member; return it, and where its value starts."""
        plain = _plain_name(self._body, at)
        if plain is not None:
            return plain[1].decode(), plain.end()
        if self._body[at] != _QUOTE:
            raise ValueError("a member name is missing")
        name, at, _ = self._plain(at)
        at = self._after_space(at)
        if self._body[at] != _COLON:
            raise ValueError("a colon is missing")
        return name, self._after_space(at + 1)

    def _after_space(self, at: int) -> int:
        found = _space(self._body, at)
        assert found is not None
        return found.end()


def _listed(value: Any, most: int) -> int:
    """Return how many elements the lists in ``value`` have; beyond ``most`` it is enough."""
    count, values = 0, [value]
    while values and count <= most:
        one = values.pop()
        if isinstance(one, dict):
            values.extend(one.values())
        elif isinstance(one, list):
            count += len(one)
            if count <= most:
                values.extend(one)
    return count


def _reason(error: BaseException) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, StopIteration | IndexError):
        return "cut off, or not JSON"
    return str(error).partition(":")[0] or "not JSON"


def parsed(text: str | bytes, *, strict: bool = True) -> Any:
    """Return what ``text`` says; None where it is no JSON, or nested too deeply to be read."""
    try:
        return json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
