"""The listener to an answer on its way down: the store learns the conversation's history."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.core.conversation.hearing import UNREADABLE, Heard, Hearing
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.http1.content_coding import codings_of
from cacheproxy.core.http1.headers import values
from cacheproxy.proxy.exchange.normalizing import in_thread
from cacheproxy.record.exchange import Exchange

_log = Logger()


class Listener:
    """The reader of one answer for the store; a long one is read in a thread.

    ``thought_key``: key under which the answer's reasoning is remembered, None not to remember it.
    """

    def __init__(
        self, reactor: Any, store: Store, record: Exchange, thought_key: int | None
    ) -> None:
        self._reactor = reactor
        self._record = record
        self._is_busy = False
        dialect, headers = record.received.dialect, record.response_headers
        assert record.session is not None
        history = None if record.place is None else record.place.history
        hear = partial(store.heard, record.session, history, thought_key)
        self._hear: Callable[[Hearing | None, Heard], None] = hear
        self._reader: Hearing | None = None
        if dialect is None or dialect.reading is None:
            return
        kind = next(iter(values(headers, b"content-type")), b"").decode("latin-1")
        self._reader = Hearing(
            *(dialect, kind, codings_of(headers)), lambda heard: hear(self._reader, heard)
        )
        store.reads(record.session, self._reader)

    def feed(self, data: bytes) -> None:
        """Take bytes of the answer that went down."""
        if self._reader is not None and self._reader.feed(data):
            self._read_elsewhere(self._reader)

    def close(self, *, is_whole: bool) -> None:
        """End the answer; ``is_whole``: whether all of it went down."""
        reader = self._reader
        if reader is None:
            self._hear(None, UNREADABLE)
        elif reader.close(is_whole=is_whole):
            self._is_busy = False  # a read under way may have missed the end
            self._read_elsewhere(reader)
        else:
            reader.settle()

    def _read_elsewhere(self, reader: Hearing) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        in_thread(self._reactor, reader.settle).addBoth(self._is_done)

    def _is_done(self, result: object) -> None:
        self._is_busy = False
        if isinstance(result, Failure):
            _log.failure("{whose}: an answer was not read", result, whose=self._record.label)
