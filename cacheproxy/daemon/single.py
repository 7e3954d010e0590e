"""The one process that listens and serves by itself, as it does unless workers are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.web.resource import Resource

from cacheproxy.config import Config
from cacheproxy.core.privacy.access import Access
from cacheproxy.daemon.wiring import Arrangement
from cacheproxy.proxy.downstream.draining import Draining, tell_broken_off, tell_stopping
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite


class Alone:
    """A front: what stands between the listening socket and the exchanges. See ``parts.Front``."""

    def __init__(self, reactor: Any) -> None:
        self.site = ProxySite(Resource(), reactor, Limits(), Access())
        self._draining = Draining(self.site, reactor)
        self._port: IListeningPort | None = None

    def objection(self, port: Any) -> str | None:  # noqa: ARG002
        """Return nothing: any port will do."""
        return None

    def start(self, port: IListeningPort, gave_up: Callable[[str], None]) -> None:  # noqa: ARG002
        """Serve ``port``, as it does already."""
        self._port = port

    async def ready(self) -> str | None:
        """Return at once."""
        return None

    async def prepare(self, config: Config) -> None:
        """Need nothing."""

    def adopt(self, arrangement: Arrangement) -> None:
        """Have what begins from now on go by ``arrangement``."""
        self.site.adopt(arrangement.resource, arrangement.limits, arrangement.access)

    def forget(self) -> None:
        """Have nobody to tell."""

    async def stop(self, grace: float) -> int:
        """Listen no more, let open answers finish; return how many were broken off."""
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)
        tell_stopping(self._draining.begin(), grace)
        broken_off = await self._draining.finish(grace)
        tell_broken_off(broken_off)
        return broken_off

    def hurry(self) -> None:
        """Wait no longer."""
        self._draining.hurry()

    def channels(self) -> Collection[Any]:
        """Return the open connections."""
        return self.site.channels

    def standing(self) -> None:
        """Return nothing: there are no workers."""
