"""The end of the downstream side: open answers may finish, nothing begins."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cacheproxy.proxy.downstream.site import ProxySite

_log = Logger()
_LOOK_EVERY = 0.02
"""Seconds between two looks at whether the last connection has closed."""
_CLOSING_SECONDS = 1.0
"""How long connections that were broken off may take to close: it takes a turn of the reactor."""


class Draining:
    """Lets the open answers of ``site`` finish, and breaks off those that do not in time."""

    def __init__(self, site: ProxySite, clock: IReactorTime) -> None:
        self._site = site
        self._clock = clock
        self._hurried = False

    def begin(self, *, without: int = 0) -> int:
        """Answer no new request, and close idle connections; return how many answers are open.

        ``without``: open ones that are not to be counted, since they end by themselves.
        """
        self._site.drain()
        waiting = sum(1 for channel in self._site.channels if channel.requests)
        return max(0, waiting - without)

    async def finish(self, seconds: float) -> int:
        """Wait until the last client has its answer, ``seconds`` at most.

        Return how many connections were broken off: their upstreams are closed, and their clients
        see answers that do not end.
        """
        site = self._site
        until = self._clock.seconds() + seconds
        while site.channels and not self._hurried and self._clock.seconds() < until:
            await self._pause()
        left = tuple(site.channels)
        for channel in left:
            channel.abort()
        until = self._clock.seconds() + _CLOSING_SECONDS
        while site.channels and self._clock.seconds() < until:
            await self._pause()
        return len(left)

    def hurry(self) -> None:
        """Wait no longer."""
        self._hurried = True

    def _pause(self) -> Deferred[None]:
        pause: Deferred[None] = Deferred()
        self._clock.callLater(_LOOK_EVERY, pause.callback, None)
        return pause


def tell_stopping(waiting: int, seconds: float) -> None:
    """Log that it begins, with ``waiting`` open answers that have ``seconds``."""
    if waiting:
        _log.info(
            "stopping: {answers} may take up to {seconds:g} s; "
            "a second signal breaks off what is left",
            answers=_answers(waiting),
            seconds=seconds,
        )
    else:
        _log.info("stopping")


def tell_broken_off(count: int) -> None:
    """Log how many answers were broken off, if there were any."""
    if count:
        _log.warn("{answers} broken off", answers=_answers(count))


def _answers(count: int) -> str:
    return f"{count} open answer{'' if count == 1 else 's'}"
