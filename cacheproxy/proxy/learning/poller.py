"""Polls the upstream every few seconds: is it up, its counters, its slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.servers.known_pages import KnownPages
from cacheproxy.core.servers.looking import asking, look_of
from cacheproxy.core.servers.status import Answers, Look, UpstreamState
from cacheproxy.proxy.upstream.probe import ProbeAnswer, answer
from cacheproxy.proxy.upstream.upstream import Upstream

_log = Logger()
_SECONDS = 5.0
"""For each page, if nothing else is said: a server busy with a large batch may take two."""
_HEADERS: Headers = ((b"Accept", b"*/*"),)


class Poller(Service):
    """Looks every ``interval`` seconds and gives each Look to ``deliver``; at once when it starts.

    ``upstream`` may be replaced while it runs. ``clock``: an IReactorTime; ``wall``: returns
    seconds since the epoch. A look that takes longer than the interval delays the next. ``last``
    is the latest, None before the first. ``seconds``: for each page.
    """

    def __init__(
        self,
        upstream: Upstream,
        interval: float,
        deliver: Callable[[Look], object],
        clock: Any,
        *,
        wall: Callable[[], float],
        seconds: float = _SECONDS,
    ) -> None:
        self.upstream = upstream
        self.last: Look | None = None
        self._deliver = deliver
        self._clock = clock
        self._wall = wall
        self._interval = interval
        self._seconds = seconds
        self._waiting: list[Deferred[None]] = []
        self._loop = LoopingCall(self._run)
        self._loop.clock = clock
        self._looking: Deferred[None] | None = None
        self._known = KnownPages()
        self._asked: Upstream | None = None

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
        self._clock.callLater(seconds, self._tell_first)
        await waiting

    def _tell_first(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    async def look(self) -> Look:
        """Look once: ask for what is not known, or where another server is seen, for all."""
        upstream = self.upstream
        if upstream is not self._asked:
            self._asked, self._known = upstream, KnownPages()
        look, again = self._known.settle(*await self._ask(upstream))
        if again:
            look, _ = self._known.settle(*await self._ask(upstream))
        return look

    async def _ask(self, upstream: Upstream) -> tuple[Look, str]:
        """Return a look, and what the answers' header Server says."""
        questions = asking(self._known.begin())
        path, url = next(questions), upstream.url.text
        while True:
            page = await self._page(upstream, path)
            try:
                path = questions.send(page)
            except StopIteration as end:
                answers: Answers | None = end.value
                break
        if answers is None:
            return Look(url, self._wall(), self._clock.seconds(), UpstreamState.DOWN), ""
        for path, status in answers.statuses.items():
            self._known.take(path, status, answers.pages.get(path))
        return look_of(url, self._wall(), self._clock.seconds(), answers), answers.software

    async def _page(self, upstream: Upstream, path: str) -> ProbeAnswer | None:
        request = Request("GET", path, _HEADERS)
        try:
            return await answer(upstream, request, self._clock, self._seconds)
        except CancelledError:
            raise
        except Exception:
            return None
