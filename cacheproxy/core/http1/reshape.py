"""An answer's bytes on their way to a client that asked for another form than its server gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.stream import CUT
from cacheproxy.core.document.edits import encode
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.http1.buffer import Pieces
from cacheproxy.core.http1.content_coding import CodingError, TooLargeError, Unpacker
from cacheproxy.core.http1.sse import EventReader

_LARGEST = 64 << 20
"""Bytes of an answer that is gathered or unpacked."""


class Transform(Protocol):
    """Says the same in another form: ``feed`` the server's bytes, ``close`` when all have come.

    What makes no sense raises ValueError: then the answer is broken off.
    """

    def feed(self, data: bytes) -> bytes:
        """Return what goes on to the client of ``data``, any piece of the server's body."""

    def close(self) -> bytes:
        """Return the rest."""


class AsWhole:
    """A stream of events as the whole body of ``dialect``, which comes at the end."""

    def __init__(self, dialect: Dialect) -> None:
        if dialect.whole is None:
            raise ValueError(f"nobody knows the streams of {dialect.name}")
        self._events = EventReader()
        self._left = _LARGEST
        self._whole = dialect.whole()
        next(self._whole)

    def feed(self, data: bytes) -> bytes:
        """Take events; raises ValueError where one is an error, or cannot be understood."""
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(_TOO_LARGE)
        for event in self._events.feed(data):
            if event.type == b"ping" or event.data.strip() in (b"", b"[DONE]"):
                continue
            value = parsed(event.data)
            if not isinstance(value, dict):
                raise ValueError("the server sent an event that is no object")  # noqa: TRY004
            if event.type == b"error":
                value = {"error": value} | value
            try:
                self._whole.send(value)
            except (TypeError, KeyError, AttributeError, StopIteration):
                raise ValueError("the server sent an event that makes no sense") from None
        return b""

    def close(self) -> bytes:
        """Return the whole body; raises ValueError where the stream had no end."""
        try:
            self._whole.send(None)
        except TypeError:
            raise ValueError("the server's events make no sense") from None
        except StopIteration as done:
            if done.value is None:  # what came made no sense, and that was raised
                raise ValueError(CUT) from None
            return encode(done.value).encode()
        raise AssertionError("None is the end")


class AsStream:
    """A whole body as a stream of events of ``dialect``, which comes at the end."""

    def __init__(self, dialect: Dialect) -> None:
        if dialect.events is None:
            raise ValueError(f"nobody knows the streams of {dialect.name}")
        self._events = dialect.events
        self._body = Pieces()

    def feed(self, data: bytes) -> bytes:
        """Keep ``data``; raises ValueError where that is too much."""
        self._body.add(data)
        if self._body.size > _LARGEST:
            raise ValueError(_TOO_LARGE)
        return b""

    def close(self) -> bytes:
        """Return the events; raises ValueError where the body is no answer."""
        value = parsed(self._body.joined())
        try:
            return self._events(value)
        except (TypeError, KeyError, AttributeError):
            raise ValueError("the server's answer makes no sense") from None


class Unpacked:
    """A body without its ``codings``, which are known. Both methods raise CodingError."""

    def __init__(self, codings: Sequence[bytes]) -> None:
        self._unpacker = Unpacker(codings, _LARGEST)

    def feed(self, data: bytes) -> bytes:
        """Return what ``data`` comes to."""
        try:
            return b"".join(self._unpacker.feed(data))
        except TooLargeError:
            raise CodingError(_TOO_LARGE) from None
        except CodingError:
            raise CodingError(_NOT_PACKED) from None

    def close(self) -> bytes:
        """Return nothing: see that the body has ended."""
        try:
            self._unpacker.close()
        except CodingError:
            raise CodingError(_NOT_PACKED) from None
        return b""


class Chain:
    """One transform after another."""

    def __init__(self, first: Transform, second: Transform) -> None:
        self._first = first
        self._second = second

    def feed(self, data: bytes) -> bytes:
        """Return what goes on of ``data``."""
        return self._second.feed(self._first.feed(data))

    def close(self) -> bytes:
        """Return the rest of both."""
        return self._second.feed(self._first.close()) + self._second.close()


_TOO_LARGE = f"the server's answer is larger than {_LARGEST >> 20} MiB"
_NOT_PACKED = "the server's answer is broken: it is not packed as its Content-Encoding says"
