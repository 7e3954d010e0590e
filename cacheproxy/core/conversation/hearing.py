"""Reading of an answer on its way to a client: for a hash of its content, and its reasoning.

A later request shows by the answers in it whose history it has. An answer's text is not stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple

from msgspec.json import decode

from cacheproxy.core.conversation.thoughts import NO_THOUGHT, Thought
from cacheproxy.core.dialects.answer import ReadAnswer
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.stream import is_error
from cacheproxy.core.document.edits import encode
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.http1.content_coding import CodingError, Unpacker, are_known
from cacheproxy.core.http1.splitting import Splitter

MUCH = 16 << 10
"""Bytes waiting to be read above which a thread is to read them: a stream of short events takes
0.07 ms a KiB."""
_PACKED = 32
"""Bytes that one byte of a compressed answer counts as: 34 KB of gzip came to 1.2 MB."""
_LARGEST = 16 << 20
"""Bytes of an unstreamed answer, or of a decompressed one, at most; longer ones are not read."""


class Heard(NamedTuple):
    """The content of an answer, as it was read."""

    said: int | None  #: hash of the content (``dialects.answer.said``), None if not readable
    thought: Thought | None = None  #: the reasoning, NO_THOUGHT for none; None if not readable
    is_whole: bool = False  #: False: the answer was cut off, so that the client may have less


UNREADABLE = Heard(None)
NOTHING_HEARD = Heard(None)
"""The result for an answer that was cut off before any content."""


class Hearing:
    """The reader of one answer in ``dialect``; ``report`` is called once, with the result.

    ``feed`` takes bytes as they go down and reads nothing; ``settle`` reads them, in any thread.
    ``report`` is called as soon as the answer shows that it is complete, since a client may send
    its next request before the end of the body.
    """

    def __init__(
        self,
        dialect: Dialect,
        content_type: str,
        codings: Sequence[bytes],
        report: Callable[[Heard], object],
    ) -> None:
        self._dialect, self._report = dialect, report
        self._answer = ReadAnswer()
        self._messages = Splitter(content_type, _LARGEST)
        self._unpacker = Unpacker(codings, _LARGEST) if codings and are_known(codings) else None
        self._is_broken = bool(codings) and self._unpacker is None
        self._weight = 1 if self._unpacker is None else _PACKED
        self._lock = Lock()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_over = self._is_reported = False
        self._is_whole = False

    def feed(self, data: bytes) -> bool:
        """Add bytes that went down; return whether a thread should ``settle`` now."""
        if self._is_reported or self._is_broken:
            return False
        self._waiting.append(data)
        self._size += len(data) * self._weight
        return self._size >= MUCH

    def close(self, *, is_whole: bool) -> bool:
        """Note the end of the bytes; return whether ``settle`` should be called in a thread."""
        self._is_over, self._is_whole = True, is_whole
        return self._size >= MUCH

    def settle(self) -> None:
        """Read the bytes that have come, and call ``report`` if they are all."""
        with self._lock:
            if self._is_reported:
                return
            is_over = self._is_over  # read first: no bytes come after the end
            pieces, self._size = [], 0
            while self._waiting:
                pieces.append(self._waiting.popleft())
            has_ended = False
            if not self._is_broken:
                try:
                    has_ended = self._read(b"".join(pieces), is_over=is_over)
                except (ValueError, RecursionError, CodingError):
                    self._is_broken = True
            if not (is_over or has_ended):
                return
            self._is_reported = True
            self._report(self._heard(is_whole=has_ended or self._is_whole))

    def _heard(self, *, is_whole: bool) -> Heard:
        answer = self._answer
        if self._is_broken:
            return UNREADABLE
        if not is_whole and answer.is_empty and not answer.reasoning:
            return NOTHING_HEARD
        thought, text = NO_THOUGHT, "".join(answer.reasoning)
        if text:
            thought = Thought(answer.name, encode(text))
        return Heard(answer.said(), None if answer.hides else thought, is_whole)

    def _read(self, data: bytes, *, is_over: bool) -> bool:
        """Read more of the body; return whether the answer's end was in it."""
        if self._unpacker is not None:
            data = b"".join(self._unpacker.feed(data))
        messages, end = self._messages, self._dialect.end
        found = messages.feed(data)
        if is_over and (messages.is_one or messages.is_stream):
            found += messages.rest()
        if messages.has_dropped:
            raise ValueError("it is too long")
        has_ended = False
        for one in found:
            text = one.data
            if end is not None and text == end.done != b"":
                return True
            if messages.is_one or text.strip():
                has_ended = self._take(text) or has_ended
        return has_ended

    def _take(self, data: bytes) -> bool:
        """Read a whole answer, an event or a line; return whether it is marked as the last."""
        try:
            value: Any = decode(data)
        except (ValueError, RecursionError):  # msgspec refuses more than the standard library
            value = parsed(data)
        reading, end = self._dialect.reading, self._dialect.end
        if not isinstance(value, dict) or reading is None or is_error(value):
            raise ValueError("it is no answer")
        is_one = self._messages.is_one
        (reading.read if is_one else reading.read_event)(self._answer, value)
        return end is not None and not is_one and end.ends(value)
