"""Server-sent events: bytes in, events out (WHATWG HTML, section 9.2 "Server-sent events")."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

import msgspec

_LINE_END = re.compile(rb"\r\n|\r|\n")
_LONGEST_LINE = 16 << 20
"""Bytes of a line or event at most; a longer one is dropped, so that memory stays bounded."""
_USUAL = re.compile(rb"(?:event: ?([^\r\n]*)\r?\n)?data: ?([^\r\n]*)")
"""A whole event in the form of all model servers, without the empty line."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream."""

    type: bytes  #: value of the ``event:`` field, empty if there is none
    data: bytes  #: values of the ``data:`` fields, joined by LF


class EventReader:
    """The split of a stream into events: whole ones are matched at once, others line by line."""

    def __init__(self) -> None:
        self._is_between = True
        self._between = b""
        self._rest = bytearray()
        self._length = 0
        self._type = b""
        self._data: bytearray | None = None
        self._size = 0
        self._first = True
        self._after_cr = False

    def feed(self, data: bytes, only: Callable[[bytes], bool] | None = None) -> list[Event]:
        """Return the events that ``data`` completes.

        ``only``: function of a text, one event or several, that returns whether the caller wants an
        event in it; the others may be left out.
        """
        begun, between = 0, self._between
        if not self._is_between or not between:
            if not between:  # at the start of a stream a byte order mark is skipped
                self._between = between = b"\r\n\r\n" if b"\r\n\r\n" in data else b"\n\n"
            first = data.find(between)
            begun = len(data) if first < 0 else first + len(between)
            events = self._feed(data[:begun])
        else:
            events = []
        last = data.rfind(between, begun)
        if last >= 0 and self._is_between:
            whole = data[begun:last]
            begun = last + len(between)
            if only is None or only(whole):
                for text in whole.split(between):
                    if only is not None and not only(text):
                        continue
                    usual = _USUAL.fullmatch(text)
                    if usual is not None and len(text) <= _LONGEST_LINE:
                        events.append(Event(usual[1] or b"", usual[2]))
                    else:
                        events += self._feed(text + between)
        if begun < len(data):
            events += self._feed(data[begun:])
        return events

    def _feed(self, data: bytes) -> list[Event]:
        """Return the events that ``data`` completes, read line by line."""
        if self._after_cr and data:  # an LF after a CR at the end of the last piece is one line end
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if not data:
            return []
        self._after_cr = data.endswith(b"\r")
        first, *others = _LINE_END.split(data)
        self._keep(first)
        events = []
        for start_of_next in others:
            event = self._line(self._take())
            if event is not None:
                events.append(event)
            self._keep(start_of_next)
        is_within = self._length or self._type or self._after_cr or self._size
        self._is_between = not is_within and self._data is None
        return events

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= _LONGEST_LINE:
            self._rest += piece
        else:
            self._rest.clear()

    def _take(self) -> bytes | None:
        """Return the line that has ended, None if it was too long; the next one begins."""
        line = bytes(self._rest) if self._length <= _LONGEST_LINE else None
        self._rest.clear()
        self._length = 0
        return line

    def _line(self, line: bytes | None) -> Event | None:
        """Add ``line`` (None: too long) to the event; return the event if an empty line ends it."""
        if line is None:
            self._size = _LONGEST_LINE + 1  # the line's event is dropped, too
            return None
        if self._first:
            line, self._first = line.removeprefix(codecs.BOM_UTF8), False
        if not line:
            whole = self._data is not None and self._size <= _LONGEST_LINE
            event = Event(self._type, bytes(self._data or b"")) if whole else None
            self._type, self._data, self._size = b"", None, 0
            return event
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._data is None:
                self._data = bytearray(value)
            elif self._size <= _LONGEST_LINE:
                self._data += b"\n" + value
        elif name == b"event":
            self._type = value
        return None
