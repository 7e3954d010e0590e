"""Server-sent events: bytes in, events out (WHATWG HTML, section 9.2 "Server-sent events")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\r|\n")
_LONGEST_LINE = 16 << 20
"""Bytes after which an unended line is dropped, so that a bad server costs bounded memory."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its type (``event:`` field, empty if none) and its data, lines joined by LF."""

    type: bytes
    data: bytes


class EventReader:
    """Splits a stream into events, whatever the chunks: ``feed(bytes)`` yields what is whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._type = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that ``data`` completes. Consume all of them before the next call."""
        buffer = self._rest + data
        # A CR at the very end may be half of a CRLF: it waits for the next chunk.
        held = b"\r" if buffer.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(buffer[: len(buffer) - len(held)])
        self._rest = b"" if len(rest) > _LONGEST_LINE else rest + held
        for line in lines:
            event = self._line(line)
            if event is not None:
                yield event

    def _line(self, line: bytes) -> Event | None:
        if not line:
            event = Event(self._type, b"\n".join(self._data)) if self._data else None
            self._type, self._data, self._size = b"", [], 0
            return event
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data" and self._size + len(value) <= _LONGEST_LINE:
            self._data.append(value)
            self._size += len(value)
        elif name == b"event":
            self._type = value
        return None
