"""Finished exchanges get a verdict and a price, and are shown to the observers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import deferToThreadPool

from cacheproxy.alarm.alarming import Alarming
from cacheproxy.core.route.route import Price
from cacheproxy.core.servers.status import Look
from cacheproxy.observe.capture import Capture
from cacheproxy.observe.deferred_observer import DeferredObserver
from cacheproxy.observe.judging import Judging
from cacheproxy.observe.logline import LogLine
from cacheproxy.observe.pricing import Pricing
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.totals.totals import Totals


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
