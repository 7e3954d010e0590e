"""The factory of downstream connections."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.interfaces import IReactorTime
from twisted.web.resource import IResource
from twisted.web.server import Site

from cacheproxy.core.access import Access
from cacheproxy.proxy.channel import ProxyChannel
from cacheproxy.proxy.limits import Limits
from cacheproxy.proxy.request import ProxyRequest


class ProxySite(Site):
    """Makes the channels and knows those that are open. ``draining``: no new requests.

    There is no access log: query strings hold keys.
    """

    protocol = ProxyChannel  # type: ignore[assignment]  # HTTP/2 is not negotiated
    noisy = False

    def __init__(
        self, resource: IResource, reactor: IReactorTime, limits: Limits, access: Access
    ) -> None:
        super().__init__(
            resource,
            requestFactory=ProxyRequest,
            parsePOSTFormSubmission=False,
            timeout=None,  # the channel keeps deadlines of its own
            reactor=reactor,
        )
        self.limits = limits
        self.access = access
        self.channels: set[ProxyChannel] = set()
        self.draining = False

    def buildProtocol(self, addr: Any) -> Any:
        """Return a channel with the limits as they are now."""
        channel = cast("ProxyChannel", super().buildProtocol(addr))
        channel.limits = self.limits
        channel.MAX_LENGTH = self.limits.head + self.limits.target
        return channel

    def adopt(self, resource: IResource, limits: Limits, access: Access) -> None:
        """Use these from the next request on, also where a connection waits for one."""
        self.resource, self.limits, self.access = resource, limits, access
        for channel in self.channels:
            if not channel.requests:
                channel.limits, channel.MAX_LENGTH = limits, limits.head + limits.target

    def drain(self) -> None:
        """Answer no new request; close the connections that wait for one."""
        self.draining = True
        for channel in tuple(self.channels):
            channel.close_if_idle()

    def log(self, request: Any) -> None:
        """Write no access log: one line per exchange is an observer's business."""
