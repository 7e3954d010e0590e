"""Relay: the end of an answer that broke off, without a network."""

from __future__ import annotations

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.access import Access
from cacheproxy.core.http1 import ResponseError
from cacheproxy.proxy.connection import UpstreamConnection
from cacheproxy.proxy.limits import Limits
from cacheproxy.proxy.relay import Relay
from cacheproxy.proxy.site import ProxySite

REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


class Answering(Resource):
    """Begins a relay for each request."""

    isLeaf = True

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def render(self, request):
        request.write(b"")
        connection = UpstreamConnection(b"", b"", b"POST", self.clock, 0)
        connection.makeConnection(StringTransport())
        self.relay = Relay(request, connection, None, self.clock, self.clock.seconds)
        self.relay.makeConnection(connection)
        return NOT_DONE_YET


class Broken:
    """An answer that has broken off after some bytes."""

    def __init__(self):
        self.clock = Clock()
        resource = Answering(self.clock)
        access = Access(frozenset(), "")
        site = ProxySite(resource, self.clock, Limits(), access)
        self.channel = site.buildProtocol(None)
        self.transport = StringTransport()
        self.channel.makeConnection(self.transport)
        self.channel.dataReceived(REQUEST)
        self.failures = []
        resource.relay.done.addErrback(self.failures.append)
        resource.relay.dataReceived(b"x" * 10)
        resource.relay.connectionLost(Failure(ResponseError("it broke")))


@pytest.fixture
def broken():
    return Broken()


def test_what_came_is_sent_and_then_it_closes(broken):
    """Without a terminator; the failure is the relay's result."""
    assert broken.transport.value().endswith(b"a\r\n" + b"x" * 10 + b"\r\n")
    assert broken.transport.disconnecting
    assert [str(failure.value) for failure in broken.failures] == ["it broke"]


def test_a_client_that_does_not_read_it_is_left(broken):
    """After ten seconds, by a reset."""
    broken.clock.advance(9.9)
    assert not broken.transport.disconnected
    broken.clock.advance(0.1)
    assert broken.transport.disconnected


def test_a_client_that_has_gone_is_left_alone(broken):
    """Nothing is done to its transport any more, and no timer runs."""
    broken.channel.connectionLost(Failure(ConnectionDone()))
    assert broken.clock.getDelayedCalls() == []
