"""A page asked for without a network: the real site, channel and request."""

from __future__ import annotations

from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite


class Asking:
    """One client's GET for ``page``, a DirectPage; what was written, and whether it is over."""

    isLeaf = True

    def __init__(self, page):
        self.render = page
        self.transport = StringTransport()
        site = ProxySite(self, Clock(), Limits(), Access())
        self.channel = site.buildProtocol(None)
        self.channel.makeConnection(self.transport)
        self.channel.dataReceived(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")

    @property
    def written(self):
        return self.transport.value()

    @property
    def status(self):
        """Of the whole answer, or None while there is none."""
        return None if self.channel.requests else int(self.written.split()[1])

    def leave(self):
        self.channel.connectionLost(Failure(ConnectionLost()))
