"""Polls the upstream every few seconds: is it up, its counters, its slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cacheproxy.core.servers.looking import KnownPages
from cacheproxy.core.servers.status import Look
from cacheproxy.proxy.servers.asker import PAGE_SECONDS, Asker

_log = Logger()


class Poller(Service):
    """Looks every ``interval`` seconds and gives each Look to ``deliver``; at once when it starts.

    ``asker`` may be replaced while it runs. A look that takes longer than the interval delays the
    next. ``last`` is the latest, None before the first. ``seconds``: for each page.
    """

    def __init__(
        self,
        asker: Asker,
        interval: float,
        deliver: Callable[[Look], object],
        seconds: float = PAGE_SECONDS,
    ) -> None:
        self.asker = asker
        self.last: Look | None = None
        self._deliver = deliver
        self._interval = interval
        self._seconds = seconds
        self._waiting: list[Deferred[None]] = []
        self._loop = LoopingCall(self._run)
        self._loop.clock = asker.reactor
        self._looking: Deferred[None] | None = None
        self._known = KnownPages()
        self._asked = asker

    def startService(self) -> None:
        """Look now, and from now on."""
        super().startService()
        self._loop.start(self._interval, now=True)

    def stopService(self) -> None:
        """Stop; a look that is under way is broken off."""
        super().stopService()
        if self._loop.running:
            self._loop.stop()
        if self._looking is not None:
            self._looking.cancel()
        self._tell_first()

    def _run(self) -> Deferred[None]:
        self._looking = Deferred.fromCoroutine(self._once())
        self._looking.addErrback(self._failed)
        return self._looking

    def _failed(self, failure: Any) -> None:
        """The next look may go better: whatever it was must not end the polling."""
        if not (failure.check(CancelledError) and not self.running):
            _log.failure("a look at the upstream failed", failure)

    async def _once(self) -> None:
        look = await self.look()
        if self.running:
            self.last = look
            self._deliver(look)
            self._tell_first()

    async def first_look(self, seconds: float) -> None:
        """Return when the first look has been delivered, or after ``seconds``."""
        if self.last is not None:
            return
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        self.asker.reactor.callLater(seconds, self._tell_first)
        await waiting

    def _tell_first(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    async def look(self) -> Look:
        """Look once."""
        if self.asker is not self._asked:
            self._asked, self._known = self.asker, KnownPages()
        return await self.asker.look(self._known, self._seconds)
