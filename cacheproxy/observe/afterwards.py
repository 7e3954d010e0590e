"""Finished exchanges, shown a little later to those who look at them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from cacheproxy.core.exchange import Exchange

_log = Logger()
_PAUSE = 0.005
"""Seconds before the first, and between portions, where no request goes up in the meantime."""
_FEW = 4
"""Exchanges in a portion: about 0.5 ms. More, if more than four times as many wait."""


class Afterwards:
    """Takes finished exchanges and gives them to ``see``, in their order, on the reactor's thread.

    An agent sends its next request as soon as it has its answer. What is judged, counted and
    logged about the last would be in its way; so it is done once that request has gone up, while
    the upstream is at work: a tenth of an exchange of 80 KB, where the upstream answers at once.
    """

    def __init__(self, clock: IReactorTime, see: Callable[[Exchange], object]) -> None:
        self._clock = clock
        self._see = see
        self._waiting: deque[Exchange] = deque()
        self._timer: IDelayedCall | None = None

    def __call__(self, exchange: Exchange) -> None:
        """Have ``exchange`` seen, soon."""
        self._waiting.append(exchange)
        if self._timer is None:
            self._timer = self._clock.callLater(_PAUSE, self._some)

    def meanwhile(self) -> None:
        """Have one seen, if one waits: a request has just gone up, and whoever sent it waits too.

        Never raises: that request is not to blame.
        """
        if self._waiting:
            try:
                self._see(self._waiting.popleft())
            except Exception:
                _log.failure("an observer failed")

    def settle(self) -> None:
        """Have all seen that wait: somebody asks what has happened."""
        while self._waiting:
            self._see(self._waiting.popleft())

    def _some(self) -> None:
        self._timer = None
        for _ in range(max(_FEW, len(self._waiting) // 4)):
            if not self._waiting:
                return
            self._see(self._waiting.popleft())
        if self._waiting:
            self._timer = self._clock.callLater(_PAUSE, self._some)
