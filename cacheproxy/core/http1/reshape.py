"""An answer's bytes on their way to a client that asked for another form than its server gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.stream import CUT
from cacheproxy.core.document.edits import encode
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.http1.buffer import Pieces
from cacheproxy.core.http1.content_coding import CodingError, TooLargeError, Unpacker, are_known
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.http1.sse import EventReader

_LARGEST = 64 << 20
"""Bytes of an answer that is gathered or unpacked."""


class Transform(Protocol):
    """Says the same in another form: ``feed`` the server's bytes, ``close`` when all have come.

    What makes no sense raises ResponseError: then the answer is broken off.
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
        """Take events; raises ResponseError where one is an error, or cannot be understood."""
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
        """Return the whole body; raises ResponseError where the stream had no end."""
        try:
            self._whole.send(None)
        except TypeError:
            raise ResponseError("the server's events make no sense") from None
        except ValueError as error:
            raise ResponseError(str(error)) from None
        except StopIteration as done:
            if done.value is None:  # what came made no sense, and that was raised
                raise ResponseError(CUT) from None
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
        """Keep ``data``; raises ResponseError where that is too much."""
        self._body.add(data)
        if self._body.size > _LARGEST:
            raise ResponseError(_TOO_LARGE)
        return b""

    def close(self) -> bytes:
        """Return the events; raises ResponseError where the body is no answer."""
        value = parsed(self._body.joined())
        try:
            return self._events(value)
        except (TypeError, KeyError, AttributeError, ValueError):
            raise ResponseError("the upstream did not answer with a stream") from None


class Unpacked:
    """A body without its ``codings``; raises ResponseError where one is not known."""

    def __init__(self, codings: Sequence[bytes]) -> None:
        if not are_known(codings):
            raise ResponseError("the server's answer is packed in a way that cannot be undone")
        self._unpacker = Unpacker(codings, _LARGEST)

    def feed(self, data: bytes) -> bytes:
        """Return what ``data`` comes to."""
        try:
            return b"".join(self._unpacker.feed(data))
        except TooLargeError:
            raise ResponseError(_TOO_LARGE) from None
        except CodingError:
            raise ResponseError(_NOT_PACKED) from None

    def close(self) -> bytes:
        """Return nothing: see that the body has ended."""
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
        """Return what goes on of ``data``."""
        return self._second.feed(self._first.feed(data))

    def close(self) -> bytes:
        """Return the rest of both."""
        return self._second.feed(self._first.close()) + self._second.close()


_TOO_LARGE = f"the server's answer is larger than {_LARGEST >> 20} MiB"
_NOT_PACKED = "the server's answer is broken: it is not packed as its Content-Encoding says"
