"""The observer that captures: raw exchanges to disk, off the reactor thread.

The reactor only hands an exchange over; one thread redacts, serialises and writes it. The queue is
bounded: if the disk is slow or full, captures are dropped, counted and logged once, and no request
ever waits. ``queue.Queue`` does not fit: it bounds the number, not the bytes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any

from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.servers.profile import Profile
from cacheproxy.observe.capturefolder import CaptureFolder, day_of
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.jsonl import to_line

_log = Logger()
_SLOW = "the disk is too slow"
_TOO_LARGE = "an exchange is larger than all that may wait for the disk"
_CALM = 60.0
"""Seconds without a drop, by the exchanges' own times, after which an episode is over."""
_GATHER = 0.2
"""Seconds in which more may come before the thread looks again: to wake it up for each exchange
would cost the reactor more than the writing does."""
_MOST_SESSIONS = 1000
_NOT_BODIES = 1024
"""Bytes that an exchange is reckoned at besides its bodies and headers."""


class Capture:
    """The observer. ``reactor``: an IReactorFromThreads, on whose thread it logs.

    ``most``: exchanges that may wait for the disk; ``size``: the bytes of their bodies.
    Its thread starts with the first exchange (twistd forks before that), and ends in ``close``.
    ``dropped`` counts exchanges, ``written`` those on disk.
    """

    def __init__(
        self, reactor: Any, folder: CaptureFolder, *, most: int = 1000, size: int = 32 << 20
    ) -> None:
        self.written = 0
        self.dropped = 0
        self._reactor = reactor
        self._folder = folder
        self._most = most
        self._size = size
        self._profiles: dict[Session, tuple[str, Profile | None]] = {}
        """What each session's file said last: its profile is written where it is another."""
        self._queue: SimpleQueue[tuple[Exchange, int] | None] = SimpleQueue()
        # Each grows on one thread alone, so that neither needs a lock: what came, what went.
        self._came = 0
        self._went = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._closing = threading.Event()
        self._telling = threading.Lock()
        self._episode = 0
        self._last_drop = 0.0

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Hand them over, or drop them; never waits for the disk."""
        for exchange in () if self._closed else exchanges:
            self._hand_over(exchange)

    def _hand_over(self, exchange: Exchange) -> None:
        size = _size_of(exchange)
        waiting = self._came - self._went
        if waiting + size > self._size or self._queue.qsize() >= self._most:
            self._drop(exchange.wall, _SLOW if size <= self._size else _TOO_LARGE)
            return
        self._came += size
        # One that will wait does so without what its requests remember of their JSON.
        self._queue.put((exchange.unread() if waiting else exchange, size))
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._write_all, name="cacheproxy-capture", daemon=True
            )
            self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits, for at most ``timeout`` seconds, and stop. Blocks."""
        if self._closed:
            return
        self._closed = True
        self._closing.set()
        if self._thread is None:
            self._folder.close()
            return
        self._queue.put(None)
        self._thread.join(timeout)
        with contextlib.suppress(Empty), self._telling:
            while self._queue.get_nowait() is not None:
                self.dropped += 1
        self._queue.put(None)  # it may have been taken out just now
        if self.dropped:
            self._tell(f"capture: {self.dropped:,} exchanges were not written to it in all")

    def _write_all(self) -> None:
        while (found := self._queue.get()) is not None:
            exchange, size = found
            trouble = self._write(exchange)
            if trouble:
                self._drop(exchange.wall, trouble)
            else:
                self.written += 1
                self._recover(exchange.wall)
            self._went += size
            del found, exchange  # do not hold on to it while waiting for the next
            if self._queue.empty():
                self._closing.wait(_GATHER)
        self._folder.close()

    def _write(self, exchange: Exchange) -> str:
        """Write one exchange; return what went wrong, without anything of its contents."""
        try:
            session = exchange.session or Session(exchange.client, "no-session")
            says = day_of(exchange.wall), exchange.profile
            repeats = self._profiles.get(session) == says
            line = to_line(exchange, repeats=repeats)
            removed = self._folder.removed
            self._folder.append(session, exchange.wall, line)
            if self._folder.removed > removed or len(self._profiles) >= _MOST_SESSIONS:
                self._profiles.clear()  # any session may have to begin a new file
            self._profiles[session] = says
        except OSError as error:
            return error.strerror or "the disk failed"
        except Exception as error:  # one exchange must not end the captures of all others
            return f"an exchange cannot be written as JSON ({type(error).__name__})"
        return ""

    def _drop(self, wall: float, why: str) -> None:
        """Count, and tell of the first of an episode."""
        with self._telling:
            self.dropped += 1
            self._episode += 1
            self._last_drop = wall
            if self._episode == 1:
                self._tell(
                    f"capture to {self._folder.path}: {why}. Exchanges are not written to it; the "
                    "requests themselves go on"
                )

    def _recover(self, wall: float) -> None:
        """Tell that it is over, once it has been calm for a while."""
        if self._episode and wall - self._last_drop >= _CALM:
            with self._telling:
                self._tell(f"the capture works again; {self._episode:,} exchanges were not written")
                self._episode = 0

    def _tell(self, text: str) -> None:
        self._reactor.callFromThread(_log.warn, "{text}", text=text)


def _size_of(exchange: Exchange) -> int:
    headers = (*exchange.received.headers, *exchange.response_headers)
    return _NOT_BODIES + exchange.size + sum(len(name) + len(value) for name, value in headers)
