"""One event stream turned into another: what does not depend on the dialects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from cacheproxy.core.http1.sse import Event, EventReader
from cacheproxy.translate.common.comments import COMMENT, CommentFinder
from cacheproxy.translate.common.translation import TranslationError


class EventStream(ABC):
    """A ``Stream``: ``feed`` the server's bytes, ``close`` when its body has ended.

    What makes no sense raises TranslationError, after all that made sense was handed out: in the
    next call. ``is_over``: the answer has ended, or the server failed and the client was told;
    then nothing more comes and ``close`` is content.
    """

    PING: ClassVar[bytes]
    """What a comment of the server becomes."""

    def __init__(self) -> None:
        self.is_over = False
        self._events = EventReader()
        self._comments = CommentFinder()
        self._wrong: TranslationError | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the events that ``data`` completes."""
        if self._wrong is not None:
            raise self._wrong
        events: list[bytes] = []
        try:
            for piece in self._comments.cut(data):
                if piece == COMMENT:
                    events.append(self.ping())
                for event in self._events.feed(piece):
                    events.append(self.event(event))  # noqa: PERF401 (one may raise)
        except TranslationError as error:
            self._wrong = error
        return b"".join(events)

    def close(self) -> bytes:
        """Return the rest. Raises TranslationError if the stream was not whole."""
        if self._wrong is not None:
            raise self._wrong
        return b"" if self.is_over else self.end()

    def ping(self) -> bytes:
        """Return a sign of life."""
        return b"" if self.is_over else self.PING

    @abstractmethod
    def event(self, event: Event) -> bytes:
        """Return what becomes of the server's ``event``. Raises TranslationError."""

    @abstractmethod
    def end(self) -> bytes:
        """Return what an answer ends with whose body has ended. Raises TranslationError."""
