"""Transforms of an answer's bytes for a client that asked for another form than the server's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.errors import refusal
from cacheproxy.core.dialects.stream import CUT, is_error
from cacheproxy.core.document.edits import encode
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.http1.buffer import Pieces
from cacheproxy.core.http1.content_coding import CodingError, TooLargeError, Unpacker, are_known
from cacheproxy.core.http1.ending import Ending
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.http1.sse import EventReader

_LARGEST = 64 << 20
"""Bytes of an answer that is gathered or unpacked, at most."""


class SaidError(ResponseError):
    """The answer is an error; the text is the server's message."""


class Transform(Protocol):
    """A change of an answer's form: ``feed`` the server's bytes, ``close`` after the last.

    Both raise ResponseError for bytes that make no sense: the caller breaks the answer off.
    """

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the client so far; ``data``: any piece of the server's body."""

    def close(self) -> bytes:
        """Return the rest for the client."""


class AsWhole:
    """The transform of a stream into the whole body of ``dialect``, which comes at the end."""

    def __init__(self, dialect: Dialect) -> None:
        if dialect.whole is None:
            raise ValueError(f"nobody knows the streams of {dialect.name}")
        self._events = EventReader()
        self._left = _LARGEST
        self._whole = dialect.whole()
        next(self._whole)

    def feed(self, data: bytes) -> bytes:
        """Add events; raises ResponseError if one is an error, or cannot be understood."""
        self._left -= len(data)
        if self._left < 0:
            raise ResponseError(_TOO_LARGE)
        for event in self._events.feed(data):
            if event.type == b"ping" or event.data.strip() in (b"", b"[DONE]"):
                continue
            value = parsed(event.data)
            if not isinstance(value, dict):
                raise ResponseError("the server sent an event that is no object")
            if event.type == b"error":
                value = {"error": value} | value
            try:
                self._whole.send(value)
            except (TypeError, KeyError, AttributeError, StopIteration):
                raise ResponseError("the server sent an event that makes no sense") from None
            except ValueError as error:
                raise ResponseError(str(error)) from None
        return b""

    def close(self) -> bytes:
        """Return the whole body; raises ResponseError if the stream had no end."""
        try:
            self._whole.send(None)
        except TypeError:
            raise ResponseError("the server's events make no sense") from None
        except ValueError as error:
            raise ResponseError(str(error)) from None
        except StopIteration as done:
            if done.value is None:  # an error in ``feed`` has ended the generator before
                raise ResponseError(CUT) from None
            return encode(done.value).encode()
        raise AssertionError("None is the end")


class Gathered:
    """The transform of a whole body by the function ``made``, whose result comes at the end."""

    def __init__(self, made: Callable[[bytes], bytes]) -> None:
        self._made = made
        self._body = Pieces()

    def feed(self, data: bytes) -> bytes:
        """Add ``data``; raises ResponseError if that is too much."""
        self._body.add(data)
        if self._body.size > _LARGEST:
            raise ResponseError(_TOO_LARGE)
        return b""

    def close(self) -> bytes:
        """Return the result; raises ResponseError if the body is no answer."""
        return self._made(self._body.joined())


class AsStream(Gathered):
    """The transform of a whole body into a stream of ``dialect``; ``wanted``: request's body."""

    def __init__(self, dialect: Dialect, wanted: dict[str, Any] | None = None) -> None:
        if dialect.events is None:
            raise ValueError(f"nobody knows the streams of {dialect.name}")
        events = dialect.events
        super().__init__(lambda body: _streamed(events, body, wanted))


def _streamed(events: Callable[[Any, Any], bytes], body: bytes, wanted: Any) -> bytes:
    """Return ``body`` as a stream made by ``events``; ResponseError; SaidError for an error."""
    value = parsed(body)
    try:
        return events(value, wanted)
    except (TypeError, KeyError, AttributeError, ValueError):
        if is_error(value):
            raise SaidError(refusal(500, value)) from None
        raise ResponseError(_NO_STREAM) from None


class Recognised:
    """The choice by a body's start: ``events`` for a stream, ``whole`` for JSON (None: as is)."""

    def __init__(self, events: Transform | None, whole: Transform | None) -> None:
        self._kinds = (events, whole)
        self._begun: bytes | None = b""
        self._through: Transform | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the client so far; raises ResponseError if the body is neither."""
        if self._begun is not None:
            data = self._begun + data
            start = data.removeprefix(_BOM).lstrip(b" \t\r\n")
            if not start.startswith((*_FIELDS, b"{", b"[")):
                if len(data) > _LONGEST_START or not any(
                    one.startswith(start) for one in (*_FIELDS, _BOM)
                ):
                    raise ResponseError(_NO_STREAM)
                self._begun = data
                return b""
            self._begun, self._through = None, self._kinds[start[:1] in (b"{", b"[")]
        return data if self._through is None else self._through.feed(data)

    def close(self) -> bytes:
        """Return the rest; raises ResponseError if the body ended before it could be recognised."""
        if self._begun is not None:
            raise ResponseError(CUT)
        return b"" if self._through is None else self._through.close()


class EachEvent:
    """The transform of a stream's events by ``edit``, one at a time, as bytes with their end."""

    def __init__(self, edit: Callable[[bytes], bytes]) -> None:
        self._edit = edit
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the events completed by ``data``; raises ResponseError if one is too large."""
        *events, self._rest = _EVENT.split(self._rest + data)
        if len(self._rest) > _LARGEST:
            raise ResponseError(_TOO_LARGE)
        each = zip(events[::2], events[1::2], strict=True)
        return b"".join([self._edit(text + end) for text, end in each])

    def close(self) -> bytes:
        """Return the rest after ``edit``, an event without its end or b""."""
        return self._edit(self._rest)


class Ended:
    """The check of an unchanged stream: its close raises ResponseError if its end has not come."""

    def __init__(self, ending: Ending) -> None:
        self._ending = ending
        self._events = EventReader()

    def feed(self, data: bytes) -> bytes:
        """Look for the end in ``data``, and return it."""
        for event in self._events.feed(data):
            self._ending.see(event.type, event.data)
        return data

    def close(self) -> bytes:
        """Return nothing; raises ResponseError. The last event may come without its empty line."""
        self.feed(b"\n\n")
        if not self._ending.is_seen:
            raise ResponseError(CUT)
        return b""


class Unpacked:
    """The transform of a body that takes its ``codings`` off; raises ResponseError for unknown."""

    def __init__(self, codings: Sequence[bytes]) -> None:
        if not are_known(codings):
            raise ResponseError("the server's answer is packed in a way that cannot be undone")
        self._unpacker = Unpacker(codings, _LARGEST)

    def feed(self, data: bytes) -> bytes:
        """Return ``data`` decoded."""
        try:
            return b"".join(self._unpacker.feed(data))
        except TooLargeError:
            raise ResponseError(_TOO_LARGE) from None
        except CodingError:
            raise ResponseError(_NOT_PACKED) from None

    def close(self) -> bytes:
        """Return nothing; raises ResponseError if the coded body is cut off."""
        try:
            self._unpacker.close()
        except CodingError:
            raise ResponseError(_NOT_PACKED) from None
        return b""


class Chain:
    """One transform after another."""

    def __init__(self, first: Transform, second: Transform) -> None:
        self._first = first
        self._second = second

    def feed(self, data: bytes) -> bytes:
        """Return ``data`` after both transforms."""
        return self._second.feed(self._first.feed(data))

    def close(self) -> bytes:
        """Return the rest of both."""
        return self._second.feed(self._first.close()) + self._second.close()


_NO_STREAM = "the upstream did not answer with a stream"
_BOM, _FIELDS = b"\xef\xbb\xbf", (b":", b"data", b"event", b"id", b"retry")
"""Beginnings of a stream (HTML Standard, section 9.2.5)."""
_LONGEST_START = 64 << 10
_EVENT = re.compile(rb"(\n\n|\r\n\r\n|\r\r)")
_TOO_LARGE = f"the server's answer is larger than {_LARGEST >> 20} MiB"
_NOT_PACKED = "the server's answer is broken: it is not packed as its Content-Encoding says"
