"""Finished exchanges are seen a little later than they finish."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from cacheproxy.record.exchange import Exchange

_SOON = 0.02
"""Seconds before the first: what has finished is seen together."""
_MANY = 32
"""Exchanges that do not wait so long: their bodies would add up."""
_PAUSE, _FEW = 0.002, 4
"""Seconds between portions, and exchanges in one. More, if more than four times as many wait."""


class DeferredObserver:
    """Takes finished exchanges and gives them to ``see`` in portions, on the reactor's thread.

    An agent sends its next request as soon as it has its answer. What is judged, counted and
    logged about the last would be in its way.
    """

    def __init__(self, clock: IReactorTime, see: Callable[[Sequence[Exchange]], object]) -> None:
        self._clock = clock
        self._see = see
        self._waiting: deque[Exchange] = deque()
        self._timer: IDelayedCall | None = None

    def __call__(self, exchange: Exchange) -> None:
        """Have ``exchange`` seen, soon."""
        self._waiting.append(exchange)
        if self._timer is None:
            self._timer = self._clock.callLater(_SOON, self._some)
        elif len(self._waiting) == _MANY:
            self._timer.reset(0)

    def settle(self) -> None:
        """Have all seen that wait: somebody asks what has happened."""
        self._show(len(self._waiting))

    def _some(self) -> None:
        self._timer = None
        self._show(max(_FEW, len(self._waiting) // 4))
        if not self._waiting:
            return
        if self._timer is None:
            self._timer = self._clock.callLater(_PAUSE, self._some)
        else:  # set for one that has been put meanwhile
            self._timer.reset(_PAUSE)

    def _show(self, most: int) -> None:
        portion = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        if portion:
            self._see(portion)
