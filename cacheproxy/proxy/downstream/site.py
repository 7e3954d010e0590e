"""The factory of downstream connections."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.web.resource import IResource
from twisted.web.server import Site

from cacheproxy.core.http1.request_head import RequestHead
from cacheproxy.core.privacy.access import Access, AccessRefusal, Door
from cacheproxy.core.privacy.origins import NOT_SHARED, Sharing
from cacheproxy.proxy.downstream.channel import ProxyChannel
from cacheproxy.proxy.downstream.limits import Limits


class ProxySite(Site):
    """Makes the channels and knows those that are open.

    ``closing``: each connection ends behind its answer; ``draining``: no new requests.

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
        self.closing = self.draining = False

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

    def refusal(self, head: RequestHead, door: Door) -> AccessRefusal | None:
        """Return why a request is refused for its ``head``; see ``Settings``."""
        if self.draining:
            return AccessRefusal(503, "the proxy is shutting down")
        if len(self.channels) > self.limits.connections:
            return AccessRefusal(
                503,
                f"too many connections: the limit is {self.limits.connections} (--max-connections)",
            )
        refused = None
        if head.scheme:
            refused = self.access.misdirected(head.values, head.scheme, door)
        http10 = head.version == b"HTTP/1.0"
        return refused or self.access.refusal(
            head.values, door.address, method=head.method, path=head.path, http10=http10
        )

    def sharing(self, head: RequestHead | None) -> Sharing:
        """Return what the answer says about web pages of other origins; see ``Settings``."""
        if head is None:
            return NOT_SHARED
        return self.access.sharing(head.method, head.path, head.values)

    def without_token(self, head: RequestHead) -> RequestHead:
        """Return ``head`` without our token; see ``Settings``."""
        access = self.access
        if not access.token:
            return head
        held, target = access.token_headers(head.values), access.without_token(head.target)
        return head.without(held, target) if held or target != head.target else head

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
