"""Finished exchanges get a verdict and a price, and are shown to the observers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.threads import deferToThreadPool

from cacheproxy.alarm.alarming import Alarming
from cacheproxy.core.route.route import Price
from cacheproxy.core.servers.status import Look
from cacheproxy.observe.capture import Capture
from cacheproxy.observe.judging import Judging
from cacheproxy.observe.log import LogLine
from cacheproxy.observe.pricing import Pricing
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.record.exchange import Exchange
from cacheproxy.totals.totals import Totals

_SOON = 0.02
"""Seconds before the first: what has finished is seen together."""
_MANY = 32
"""Exchanges that do not wait so long: their bodies would add up."""
_PAUSE, _FEW = 0.002, 4
"""Seconds between portions, and exchanges in one. More, if more than four times as many wait."""


class Records(Service):
    """Judges and prices what ``take`` is given; nothing is lost when it stops.

    ``judging`` delivers to ``pricing``, which delivers to the observers of ``plugins``. ``capture``
    and ``totals``: None where nothing is kept of the kind.
    """

    def __init__(
        self,
        reactor: Any,
        plugins: Plugins,
        judging: Judging,
        pricing: Pricing,
        log_line: LogLine,
        *,
        alarming: Alarming,
        capture: Capture | None,
        totals: Totals | None,
    ) -> None:
        self.take = DeferredObserver(reactor, judging)
        self.judging = judging
        self.log_line = log_line
        self.alarming = alarming
        self.capture = capture
        self.totals = totals
        self._reactor = reactor
        self._plugins = plugins
        self._pricing = pricing

    def startService(self) -> None:
        """Be ready for exchanges."""
        super().startService()
        self.judging.start()

    def stopService(self) -> Deferred[None]:
        """Fire when all that waits has been seen, and written."""
        super().stopService()
        return Deferred.fromCoroutine(self._finish())

    def set_prices(self, prices: Mapping[str, Price]) -> None:
        """Price what ends from now on by ``prices``, by the upstreams' names."""
        self._pricing.prices = prices

    def speed(self, url: str) -> float | None:
        """Return the speed of prefill of the upstream at ``url``, in tokens a second."""
        return self._pricing.speed(url)

    def looked(self, look: Look) -> None:
        """Take note of a look at the upstream."""
        self._pricing.looked(look)
        if self.totals is not None:
            self.totals.looked(look)
        self.judging.looked(look)

    async def _finish(self) -> None:
        """Verdicts first: what they deliver, here on the reactor, is still to be seen by others."""
        pool = self._reactor.getThreadPool()
        self.take.settle()
        await deferToThreadPool(self._reactor, pool, self.judging.stop)
        self.judging.settle()
        await gatherResults([self._plugins.finish(), self.alarming.finish()])
        for kept in (self.capture, self.totals):
            if kept is not None:
                await deferToThreadPool(self._reactor, pool, kept.close)


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
