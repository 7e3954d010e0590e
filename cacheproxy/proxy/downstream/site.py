"""The factory of downstream connections, and their end when the proxy stops."""

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
"""Seconds in which a connection that was just made may send its request: a load balancer does so,
and would report a reset to its client."""
_CLOSING_SECONDS = 1.0
"""Seconds for aborted connections to close, which takes a turn of the reactor."""


class ProxySite(Site, SiteState):
    """The factory of the channels, and the set of open ones.

    There is no access log, since query strings may hold keys.
    """

    noisy = False

    def __init__(
        self, resource: IResource, reactor: IReactorTime, limits: Limits, access: Access
    ) -> None:
        Site.__init__(self, resource, reactor=reactor)
        SiteState.__init__(self, limits, access)

    def buildProtocol(self, addr: Any) -> Any:  # noqa: ARG002
        """Return a channel with the present limits."""
        return ProxyChannel(self, self.limits)

    def startFactory(self) -> None:
        """Do nothing: Twisted would start a timer for the dates of an access log, each second."""

    def stopFactory(self) -> None:
        """Do nothing: there is nothing to stop."""

    def adopt(self, resource: IResource, limits: Limits, access: Access) -> None:
        """Use these settings from the next request on, also on open connections that are idle."""
        self.resource, self.limits, self.access = resource, limits, access
        for channel in self.channels:
            channel.adopt(limits)
        self.bodies.adopt(limits.in_flight)

    def last_call(self) -> None:
        """Close the idle connections, except those that have not sent their first request yet."""
        self.closing = True
        for channel in tuple(self.channels):
            if channel.was_used:
                channel.close_if_idle()

    @property
    def is_awaited(self) -> bool:
        """Whether a connection has not sent its first request yet."""
        return not all(channel.was_used for channel in self.channels)

    def drain(self) -> None:
        """Refuse new requests; close the idle connections."""
        self.closing = self.draining = True
        for channel in tuple(self.channels):
            channel.close_if_idle()


class Draining:
    """The end of ``site``: open answers may finish in time, the others are cut off."""

    def __init__(self, site: ProxySite, clock: IReactorTime) -> None:
        self._site = site
        self._clock = clock
        self._hurried = False

    async def run(self, seconds: float) -> int:
        """Refuse new requests, and wait until the last client has its answer.

        Idle connections close at once. After ``seconds`` the others are aborted: their upstreams
        close, and their clients see incomplete answers. Return the number of these.
        """
        site = self._site
        site.last_call()
        await self._while(lambda: site.is_awaited and not self._hurried, min(_LAST_CALL, seconds))
        site.drain()
        # Connections with nothing more to send close meanwhile.
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
        """Cut the open answers off now."""
        self._hurried = True

    async def _while(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait while ``holds`` returns true, for ``seconds`` at most."""
        until = self._clock.seconds() + seconds
        while holds() and self._clock.seconds() < until:
            await deferLater(self._clock, _LOOK_EVERY)


def _answers(count: int) -> str:
    return f"{count} open answer{'' if count == 1 else 's'}"
