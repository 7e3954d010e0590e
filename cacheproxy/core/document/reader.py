"""The reader of JSON containers, element by element, with the standard library's C scanner.

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
from cacheproxy.core.document.spans import Container, Frame, Item, SpelledValue

MOST_ENTRIES = 100_000
"""Members of the body and elements of its arrays at most: each costs a microsecond and 200 bytes,
and the garbage collector blocks the other threads while it visits them all."""
MOST_LISTED = 250_000
"""Elements of all lists inside these at most. In a message they are blocks of the prompt, each of
which costs some microseconds and 300 bytes."""
_WINDOW = 4 << 10
"""Bytes decoded at first for a value; eight times as many for each further attempt."""
_LEAST = 64
"""Bytes of a member's value at least, for an item of its own."""
_LONG = 1 << 20
"""Bytes of a value at most to be compared with the body before; the memo compares longer ones."""
_EACH = 256
"""Bytes that could be scanned in the time in which one value is looked up or put into a list."""
_SPACES = b" \t\n\r"
_space: Any = re.compile(rb"[ \t\n\r]*").match
_plain_name = re.compile(rb'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_FAULTS = (ValueError, StopIteration, RecursionError, IndexError)
_COMMA, _COLON, _QUOTE, _ARRAY, _OBJECT, _END_ARRAY, _END_OBJECT = b',:"[{]}'
_OPENING = b'"[{'


class NotUnderstoodError(ValueError):
    """The body is no JSON object that can be read; the proxy forwards it as it came."""


class TooMuchError(Exception):
    """More of the body is new than the limit allows to scan."""


class Reader:
    """The reader of the containers in ``body``; values that ``memo`` has are not scanned.

    ``scanned``: number of bytes that were. ``most``: bytes to scan at most; TooMuchError is raised
    above it, or above one value for each 256 of them, looked up or scanned. A second reader finds
    the values read by this one in the memo.
    """

    def __init__(self, body: bytes, memo: Memo | None = None, most: int = sys.maxsize) -> None:
        self._body = body
        self._memo = memo
        self._most = most
        self._looks = most // _EACH
        self._is_deep = False
        self._left = MOST_ENTRIES
        self._left_in_lists = MOST_LISTED
        self.scanned = 0

    def read(self) -> tuple[int, Container]:
        """Return the offset of the object in the body, and the object.

        Raises NotUnderstoodError or TooMuchError.
        """
        body = self._body
        try:
            start = 0 if body[:1] == b"{" else _space(body, 0).end()
            if not body.startswith(b"{", start):
                body.decode()
                raise ValueError("not a JSON object")
            root = Container([])
            self._fill(root, start)
            end = start + root.length
            if end != len(body) and _space(body, end).end() != len(body):
                raise ValueError("text after the JSON object")
        except _FAULTS as error:
            raise NotUnderstoodError(_reason(error)) from None
        return start, root

    def read_like(
        self, frame: Frame, items: dict[str, Item], value: dict[str, Any]
    ) -> list[int] | None:
        """Return the offsets of the items, if the text around them is that of ``frame``.

        ``items`` and ``value``: those of another body with that frame; what is spelled otherwise
        here is read, and replaced in both. Return None if there is other text, or the body is
        faulty. Raises TooMuchError.
        """
        body, at = self._body, 0
        starts: list[int] = []
        self._left -= frame.count
        self._looks -= frame.count
        for text, (name, known) in zip(frame.texts, items.items(), strict=False):
            if not body.startswith(text, at):
                return None
            at += len(text)
            starts.append(at)
            spelled = known.spelled
            size = len(spelled)
            if size < _LONG and body.startswith(spelled, at):
                at += size
                continue
            try:
                value[name], at, item = self._member(at, known)
            except _FAULTS:
                return None
            if item is None:
                return None
            items[name] = item
        if body[at:] != frame.texts[-1]:
            return None
        if self._looks < 0:
            raise TooMuchError
        if len(body) > MOST_ENTRIES:
            arrays = (item.values for item in items.values() if isinstance(item, Container))
            if frame.count + sum(map(len, arrays)) > MOST_ENTRIES:
                return None
        return starts

    def deep(self, opening: int) -> Container:
        """Return the container at ``opening``, which was read before; raises RecursionError."""
        self._is_deep, self._left = True, sys.maxsize
        made = Container([] if self._body[opening] == _OBJECT else None)
        self._fill(made, opening)
        return made

    def _fill(self, made: Container, opening: int, like: Container | None = None) -> None:
        """Read the rest of ``made``: the body, an array that is a member, or a deeper container.

        It is one loop without calls for known values, which are nearly all of a body each turn.
        ``like``: an array that may have all values but the first.
        """
        body, keys, values = self._body, made.keys, made.values
        starts, value_starts, ends, items = made.starts, made.value_starts, made.ends, made.items
        known: dict[bytes, tuple[SpelledValue, ...]] = {}
        head, close = 0, _END_ARRAY if keys is None else _END_OBJECT
        if self._memo is not None:
            known, head = self._memo.items, self._memo.head
        at = opening + (ends[-1] if ends else 1)
        self._left -= len(values)
        item: Item | None
        while True:
            sign = body[at]
            if sign in _SPACES:
                at = _space(body, at).end()
                sign = body[at]
            if sign == _COMMA and values:
                at += 1
                sign = body[at]
                if sign in _SPACES:
                    at = _space(body, at).end()
                    sign = body[at]
            elif sign == close:
                break
            elif values:
                raise ValueError("a comma is missing")
            starts.append(at - opening)
            if keys is not None:
                plain = _plain_name(body, at)
                key, at = self._name(at) if plain is None else (plain[1].decode(), plain.end())
                keys.append(key)
                value_starts.append(at - opening)
            if self._is_deep:
                (value, at), item = self._plain(at), None
            elif keys is not None:
                value, at, item = self._member(at)
            else:
                for one in known.get(body[at : at + head], ()) if sign in _OPENING else ():
                    if body.startswith(one.spelled, at):
                        value, item = one.value, one
                        at += len(one.spelled)
                        break
                else:
                    start, (value, at) = at, self._plain(at)
                    if len(body) > 2 * MOST_LISTED:  # a shorter body has no room for so many
                        self._count(value)
                    item = SpelledValue(body[start:at], value)
            values.append(value)
            ends.append(at - opening)
            items.append(item)
            self._left -= 1
            self._looks -= 1
            if self._looks < 0:
                raise TooMuchError
            if self._left < 0:
                raise ValueError("too many members and elements")
            if like is not None and len(ends) == 1:
                rest = like.spelled[like.ends[0] :]
                if body.startswith(rest, at):
                    made.place(like, len(like.ends), ends[0] - like.ends[0])
                    values += like.values[1:]
                    items += like.items[1:]
                    at += len(rest) - 1
                    break
        made.length = at + 1 - opening
        made.value = values if keys is None else dict(zip(keys, values, strict=True))

    def _member(self, at: int, like: Item | None = None) -> tuple[Any, int, Item | None]:
        """Return the member's value at ``at``, its end, and its item or array, None if short."""
        body, memo = self._body, self._memo
        if body[at] == _ARRAY:
            array = self._array(at, like)
            return array.value, at + array.length, array
        item = memo.item(body, at) if memo is not None and body[at] in _OPENING else None
        if item is None:
            value, end = self._plain(at)
            if body[at] not in _OPENING or end - at < _LEAST:
                return value, end, None
            if len(body) > 2 * MOST_LISTED:
                self._count(value)
            item = SpelledValue(body[at:end], value)
        if memo is not None and len(item.spelled) >= memo.head:
            memo.keep(item)
        return item.value, at + len(item.spelled), item

    def _array(self, at: int, like: Item | None) -> Container:
        """Return the array at ``at``, the same object if it is known."""
        body, memo = self._body, self._memo
        known, length = (None, 0) if memo is None else memo.array(body, at)
        if known is not None and length == known.length:
            self._left -= len(known.values)
            return known
        made = Container() if known is None else known.begun(length)
        try:
            self._fill(made, at, like if isinstance(like, Container) and like.ends else None)
        except TooMuchError:
            if made.ends:
                made.value, made.length = made.values, made.ends[-1] + 1  # with a bracket to come
                self._keep(made, at, made.length - 1, known)
            raise
        self._keep(made, at, made.length, known)
        return made

    def _keep(self, made: Container, at: int, length: int, known: Container | None) -> None:
        """Store the array at ``at``, of which ``length`` bytes have been read."""
        part = memoryview(self._body)[at : at + length]
        # A view keeps the whole body in memory, so a small part is copied.
        made.spelled = part if 2 * length > len(self._body) else memoryview(bytes(part))
        if self._memo is not None:
            self._memo.keep(made, known)

    def _plain(self, at: int) -> tuple[Any, int]:
        """Return the value at ``at``, and its end; raises TooMuchError."""
        body = self._body
        size = _WINDOW if body[at] in _OPENING else _LEAST
        while True:
            is_rest = at + size >= len(body)
            part = body if size <= _WINDOW else memoryview(body)  # a long value is not copied
            text, _ = utf_8_decode(part[at : at + size], "strict", is_rest)
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
                    return value, at + end
            if self.scanned + size > self._most:
                raise TooMuchError
            size = min(8 * size, self._most - self.scanned + _LEAST)

    def _count(self, value: Any) -> None:
        """Count the elements of all lists in ``value``; raises ValueError if they are too many."""
        self._left_in_lists -= _listed(value, self._left_in_lists)
        if self._left_in_lists < 0:
            raise ValueError("too many elements in its lists")

    def _name(self, at: int) -> tuple[str, int]:
        """Return the name of a member that has escapes, and the offset of its value."""
        if self._body[at] != _QUOTE:
            raise ValueError("a member name is missing")
        name, at = self._plain(at)
        at = _space(self._body, at).end()
        if self._body[at] != _COLON:
            raise ValueError("a colon is missing")
        return name, _space(self._body, at + 1).end()


def _listed(value: Any, most: int) -> int:
    """Return the number of elements of all lists in ``value``; counting stops above ``most``."""
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
    """Return the value of ``text``, None if it is no JSON, or nested too deeply to be read."""
    try:
        return json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
