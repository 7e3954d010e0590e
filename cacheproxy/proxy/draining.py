"""The end of the downstream side: open answers may finish, nothing begins."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cacheproxy.proxy.site import ProxySite

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

    async def run(self, seconds: float) -> int:
        """Wait until the last client has its answer, ``seconds`` at most.

        Return how many connections were broken off: their upstreams are closed, and their clients
        see answers that do not end. Idle connections are closed at once.
        """
        site = self._site
        site.drain()
        self._tell(seconds)
        until = self._clock.seconds() + seconds
        while site.channels and not self._hurried and self._clock.seconds() < until:
            await self._pause()
        left = tuple(site.channels)
        for channel in left:
            channel.abort()
        until = self._clock.seconds() + _CLOSING_SECONDS
        while site.channels and self._clock.seconds() < until:
            await self._pause()
        if left:
            _log.warn("{answers} broken off", answers=_answers(len(left)))
        return len(left)

    def hurry(self) -> None:
        """Wait no longer."""
        self._hurried = True

    def _tell(self, seconds: float) -> None:
        waiting = sum(1 for channel in self._site.channels if channel.requests)
        if waiting:
            _log.info(
                "stopping: {answers} may take up to {seconds:g} s; "
                "a second signal breaks off what is left",
                answers=_answers(waiting),
                seconds=seconds,
            )
        else:
            _log.info("stopping")

    def _pause(self) -> Deferred[None]:
        pause: Deferred[None] = Deferred()
        self._clock.callLater(_LOOK_EVERY, pause.callback, None)
        return pause


def _answers(count: int) -> str:
    return f"{count} open answer{'' if count == 1 else 's'}"
