"""The factory of downstream connections, and how they end when the proxy stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.web.resource import IResource
from twisted.web.server import Site

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.channel import ProxyChannel
from cacheproxy.proxy.downstream.limits import Limits, SiteState

_log = Logger()
_LOOK_EVERY = 0.02
"""Seconds between two looks at whether the last connection has closed."""
_LAST_CALL = 1.0
"""Seconds in which a connection that was just made may send its request: a balancer does so, and
would tell its client of a reset."""
_CLOSING_SECONDS = 1.0
"""How long connections that were broken off may take to close: it takes a turn of the reactor."""


class ProxySite(Site, SiteState):
    """Makes the channels and knows those that are open.

    There is no access log: query strings hold keys.
    """

    noisy = False

    def __init__(
        self, resource: IResource, reactor: IReactorTime, limits: Limits, access: Access
    ) -> None:
        Site.__init__(self, resource, reactor=reactor)
        SiteState.__init__(self, limits, access)

    def buildProtocol(self, addr: Any) -> Any:  # noqa: ARG002
        """Return a channel with the limits as they are now."""
        return ProxyChannel(self, self.limits)

    def startFactory(self) -> None:
        """Start no clock for an access log's dates, which would wake us up each second."""

    def stopFactory(self) -> None:
        """There is nothing to stop."""

    def adopt(self, resource: IResource, limits: Limits, access: Access) -> None:
        """Use these from the next request on, also where a connection waits for one."""
        self.resource, self.limits, self.access = resource, limits, access
        for channel in self.channels:
            channel.adopt(limits)
        self.bodies.adopt(limits.in_flight)

    def last_call(self) -> None:
        """Close the connections that wait for another request; those before their first may ask."""
        self.closing = True
        for channel in tuple(self.channels):
            if channel.was_used:
                channel.close_if_idle()

    @property
    def is_awaited(self) -> bool:
        """Whether a connection has not asked for anything yet."""
        return not all(channel.was_used for channel in self.channels)

    def drain(self) -> None:
        """Answer no new request; close the connections that wait for one."""
        self.closing = self.draining = True
        for channel in tuple(self.channels):
            channel.close_if_idle()


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
        await self._while(lambda: site.is_awaited and not self._hurried, min(_LAST_CALL, seconds))
        site.drain()
        # Those that have nothing more to send close meanwhile.
        await deferLater(self._clock, _LOOK_EVERY)
        if site.channels:
            _log.info(
                "stopping: {answers} may take up to {seconds:g} s to finish; a second signal cuts "
                "them off",
                answers=_answers(len(site.channels)),
                seconds=seconds,
            )
        else:
            _log.info("stopping")
        await self._while(lambda: bool(site.channels) and not self._hurried, seconds)
        left = tuple(site.channels)
        for channel in left:
            channel.abort()
        await self._while(lambda: bool(site.channels), _CLOSING_SECONDS)
        if left:
            _log.warn("{answers} cut off", answers=_answers(len(left)))
        return len(left)

    def hurry(self) -> None:
        """Wait no longer."""
        self._hurried = True

    async def _while(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait as long as it ``holds``, at most for ``seconds``."""
        until = self._clock.seconds() + seconds
        while holds() and self._clock.seconds() < until:
            await deferLater(self._clock, _LOOK_EVERY)


def _answers(count: int) -> str:
    return f"{count} open answer{'' if count == 1 else 's'}"
