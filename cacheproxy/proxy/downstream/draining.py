"""The downstream side stops: open answers may finish, and no request begins."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cacheproxy.proxy.downstream.site import ProxySite

_log = Logger()
_LOOK_EVERY = 0.02
"""Seconds between two looks at whether the last connection has closed."""
_LAST_CALL = 1.0
"""Seconds in which a connection that was just made may send its request: a balancer does so, and
would tell its client of a reset."""
_CLOSING_SECONDS = 1.0
"""How long connections that were broken off may take to close: it takes a turn of the reactor."""


class Draining:
    """Lets the open answers of ``site`` finish, and breaks off those that do not in time."""

    def __init__(self, site: ProxySite, clock: IReactorTime) -> None:
        self._site = site
        self._clock = clock
        self._hurried = False

    async def run(self, seconds: float) -> int:
        """Answer no new request, and wait until the last client has its answer.

        After ``seconds``, connections are broken off: their upstreams are closed, and their clients
        see answers that do not end. Return how many these were. Idle connections close at once.
        """
        site = self._site
        site.last_call()
        until = self._clock.seconds() + min(_LAST_CALL, seconds)
        while site.is_awaited and not self._hurried and self._clock.seconds() < until:
            await self._pause()
        site.drain()
        await self._pause()  # those that have nothing more to send close meanwhile
        _log_start(len(site.channels), seconds)
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
            _log.warn("{answers} cut off", answers=_answers(len(left)))
        return len(left)

    def hurry(self) -> None:
        """Wait no longer."""
        self._hurried = True

    def _pause(self) -> Deferred[None]:
        pause: Deferred[None] = Deferred()
        self._clock.callLater(_LOOK_EVERY, pause.callback, None)
        return pause


def _log_start(waiting: int, seconds: float) -> None:
    if waiting:
        _log.info(
            "stopping: {answers} may take up to {seconds:g} s to finish; a second signal cuts "
            "them off",
            answers=_answers(waiting),
            seconds=seconds,
        )
    else:
        _log.info("stopping")


def _answers(count: int) -> str:
    return f"{count} open answer{'' if count == 1 else 's'}"
