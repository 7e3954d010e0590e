"""A plugin that looks at finished exchanges in a thread, as many together as wait for it.

One that hangs fills only its own queue: further exchanges are dropped, counted and logged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.proxy.exchange.workers import LeftOutError, Workers
from cacheproxy.record.exchange import Exchange

_log = Logger()
_SECONDS = 10.0
"""The deadline for one call: an observer may well write to a slow disk or a database."""
_TOGETHER = 32
"""Exchanges that it is shown in one call, at most."""


class Observer:
    """One plugin's observer. ``see`` is called in a thread; all methods are for the reactor's.

    ``name``: what it is called in the log. ``most``: exchanges that may wait for it;
    ``most_bytes``: those of their bodies.
    """

    def __init__(
        self,
        name: str,
        see: Callable[[Sequence[Exchange]], object],
        workers: Workers,
        *,
        most: int = 1000,
        most_bytes: int = 32 << 20,
    ) -> None:
        self.name = name
        self._see = see
        self._workers = workers
        self._most = most
        self._most_bytes = most_bytes
        self._queue: deque[Exchange] = deque()
        self._waiting = 0
        self._is_seeing = False
        self._is_dropping = False
        self._is_closed = False
        self._idle: list[Deferred[None]] = []

    @property
    def waiting(self) -> int:
        """Return how many exchanges wait to be seen."""
        return len(self._queue)

    @property
    def is_busy(self) -> bool:
        """Tell whether the plugin is being called."""
        return self._is_seeing

    def put(self, exchanges: Sequence[Exchange]) -> None:
        """Let the observer see ``exchanges`` with JSON of its own, or drop them. Never waits."""
        for exchange in () if self._is_closed else exchanges:
            size = exchange.size
            if self._queue and (
                len(self._queue) >= self._most or self._waiting + size > self._most_bytes
            ):
                self._drop()
                continue
            self._is_dropping = self._is_dropping and bool(self._queue)
            self._waiting += size
            self._queue.append(exchange.unread())
        if not self._is_seeing:
            self._next()

    def finish(self) -> Deferred[None]:
        """Take no more; fire when all that waits has been seen. Cancelled, it is dropped."""
        self._is_closed = True
        done: Deferred[None] = Deferred(lambda _: self._give_up())
        self._idle.append(done)
        if not self._is_seeing:
            self._next()
        return done

    def _next(self) -> None:
        if not self._queue:
            waiting, self._idle = self._idle, []
            for done in waiting:
                done.callback(None)
            return
        self._is_seeing = True
        count = min(len(self._queue), _TOGETHER)
        exchanges = [self._queue.popleft() for _ in range(count)]
        size = sum(exchange.size for exchange in exchanges)

        def see() -> None:  # what it returns may be a Deferred, and is nobody's
            self._see(exchanges)

        call = self._workers.run(self.name, see, _SECONDS)
        call.addBoth(self._seen, size)

    def _seen(self, result: object, size: int) -> None:
        self._is_seeing = False
        self._waiting -= size
        if isinstance(result, Failure) and result.value is not None:
            self._workers.failed(self.name, result.value)
            if isinstance(result.value, LeftOutError):
                self._queue.clear()
                self._waiting = 0
        self._next()

    def _drop(self) -> None:
        """Count, and tell of the first until it has caught up."""
        self._workers.failures.of(self.name).dropped += 1
        if not self._is_dropping:
            self._is_dropping = True
            _log.warn(
                "plugin {name} is too slow: it gets no more exchanges until it has caught up; "
                "the requests themselves go on",
                name=self.name,
            )

    def _give_up(self) -> None:
        left = len(self._queue)
        self._queue.clear()
        self._idle.clear()
        if left:
            self._workers.failures.of(self.name).dropped += left
            _log.warn(
                "plugin {name} was too slow: it did not get {left} exchanges",
                name=self.name,
                left=left,
            )
