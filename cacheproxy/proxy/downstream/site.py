"""The factory of downstream connections."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.web.resource import IResource
from twisted.web.server import Site

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.channel import ProxyChannel
from cacheproxy.proxy.downstream.limits import Limits


class ProxySite(Site):
    """Makes the channels and knows those that are open. ``draining``: no new requests.

    There is no access log: query strings hold keys.
    """

    noisy = False

    def __init__(
        self, resource: IResource, reactor: IReactorTime, limits: Limits, access: Access
    ) -> None:
        super().__init__(resource, reactor=reactor)
        self.limits = limits
        self.access = access
        self.channels: set[ProxyChannel] = set()
        self.draining = False

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

    def drain(self) -> None:
        """Answer no new request; close the connections that wait for one."""
        self.draining = True
        for channel in tuple(self.channels):
            channel.close_if_idle()
