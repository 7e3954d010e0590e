"""The verdict on each turn, reached after its answer has gone down, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from cacheproxy.core.collector import Collector
from cacheproxy.core.exchange import Exchange
from cacheproxy.core.prompt import Order
from cacheproxy.observe.known import KnownPrompts

_log = Logger()
_MOST_WAITING = 64 << 20
"""Bytes of bodies that may wait for the thread; beyond, exchanges go on without a verdict."""
_THREAD_ABOVE = 128 << 10
"""Bytes to be looked at beyond which a verdict is reached in the thread. A first turn of 100 kB
takes 0.2 ms, the next ones half of that; the way to the thread and back costs 0.4."""


class Judging:
    """Takes finished exchanges, gives them on with their verdict, turn and side.

    ``deliver`` is called on the reactor thread, once for each exchange: for those of one session
    in the order they finished. ``order`` is what the upstream's template prints first.
    """

    def __init__(
        self,
        reactor: Any,
        deliver: Callable[[Exchange], None],
        collector: Collector | None = None,
    ) -> None:
        self.order = Order.TOOLS_FIRST
        self._reactor = reactor
        self._collector = collector or Collector()
        self._deliver = deliver
        self._known = KnownPrompts()
        self._pool = ThreadPool(0, 1, "cacheproxy-judging")
        self._waiting = 0
        self._number = 0

    def start(self) -> None:
        """Start; the thread itself comes with the first exchange."""
        self._pool.start()

    def stop(self) -> None:
        """Finish what waits, and stop. Blocks."""
        self._pool.stop()

    def __call__(self, exchange: Exchange) -> None:
        """Take a finished exchange. Those without a prompt need no verdict."""
        self._number += 1
        number, size = self._number, len(exchange.received.body)
        if not exchange.turn or self._waiting + size > _MOST_WAITING:
            self._deliver(exchange.changed(number=number))
            return
        if not self._waiting and _is_quick(exchange):
            self._deliver(self._judged(exchange, number))
            return
        self._waiting += size
        self._pool.callInThread(self._judge_in_thread, exchange, number, size)

    def _judge_in_thread(self, exchange: Exchange, number: int, size: int) -> None:
        with self._collector.paused():
            judged = self._judged(exchange, number)
        self._reactor.callFromThread(self._back, judged, size)

    def _back(self, exchange: Exchange, size: int) -> None:
        self._waiting -= size
        self._deliver(exchange)

    def _judged(self, exchange: Exchange, number: int) -> Exchange:
        """Only ever on one thread at a time: the reactor's waits while the other has work."""
        judged = None
        try:
            judged = self._known.judge(exchange, self.order)
        except Exception as error:  # the record must not be lost for a comparison's sake
            _log.warn("a turn could not be judged: {kind}", kind=type(error).__name__)
        if judged is None:
            return exchange.changed(number=number)
        verdict, place = judged
        return exchange.changed(number=number, verdict=verdict, turn=place.turn, side=place.is_side)


def _is_quick(exchange: Exchange) -> bool:
    """Whether neither body takes long to look at: none takes more than it has bytes."""
    received = exchange.received
    sent = exchange.sent or received
    if len(received.body) <= _THREAD_ABOVE >= len(sent.body):
        return True
    return received.effort <= _THREAD_ABOVE >= sent.effort
