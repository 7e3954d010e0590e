"""Relay: the end of an answer that broke off, without a network."""

from __future__ import annotations

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.servers.prefill import PrefillReader, Progress
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.relay import Relay
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.translate.reading import TranslationError

REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Transport(StringTransport):
    """Also keeps apart what is written apart."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, data):
        self.pieces.append(data)
        super().write(data)


class Answering(Resource):
    """Begins a relay for each request."""

    isLeaf = True

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.more = {}

    def render(self, request):
        request.write(b"")
        self.connection = UpstreamConnection(b"", b"", b"POST", self.clock, 0)
        self.connection.makeConnection(StringTransport())
        self.relay = Relay(request, self.connection, self.clock, **self.more)
        self.connection.dataReceived(HEAD)
        self.relay.start()
        return NOT_DONE_YET


class Down:
    """An answer under way: what its upstream says goes to ``upstream.dataReceived``."""

    def __init__(self, through=None, **more):
        self.clock = Clock()
        resource = Answering(self.clock)
        resource.more = {"through": through, **more}
        access = Access(frozenset(), "")
        site = ProxySite(resource, self.clock, Limits(), access)
        self.channel = site.buildProtocol(None)
        self.transport = Transport()
        self.channel.makeConnection(self.transport)
        self.channel.dataReceived(REQUEST)
        self.upstream = resource.connection
        self.transport.pieces.clear()
        self.failures = []
        resource.relay.done.addErrback(self.failures.append)
        self.relay = resource.relay


class Ending:
    """A translation that fails, or says more, at its end."""

    def __init__(self, more):
        self.more = more

    def feed(self, data):
        return data

    def close(self):
        if self.more is None:
            raise TranslationError("it makes no sense")
        return self.more


@pytest.fixture
def broken():
    """An answer that has broken off after some bytes."""
    down = Down()
    down.relay.take(b"x" * 10)
    down.relay.end(Failure(ResponseError("it broke")))
    return down


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


def test_an_answer_begins_after_its_signs_of_life():
    """They go down as they come; what they tell of the prompt is passed on, and its end."""
    told = []
    down = Down(prefill=PrefillReader(), progressed=told.append)
    for comment in (b":\n\n", b": keepalive 1/2\n\n", b":\n\n", b": keepalive 2/2\n\n"):
        down.clock.advance(1)
        down.upstream.dataReceived(b"%x\r\n%s\r\n" % (len(comment), comment))
        assert down.transport.pieces[-1].endswith(comment + b"\r\n")
    assert told == [Progress(1, 2), Progress(2, 2)]
    assert down.relay.first_byte is None
    down.clock.advance(1)
    down.upstream.dataReceived(b"a\r\ndata: {}\n\n\r\n")
    down.clock.advance(1)
    down.upstream.dataReceived(b"a\r\ndata: {}\n\n\r\n")
    assert down.relay.first_byte == 5.0
    assert told == [Progress(1, 2), Progress(2, 2), None]


def test_without_signs_of_life_nothing_is_told():
    told = []
    down = Down(prefill=PrefillReader(), progressed=told.append)
    down.clock.advance(1)
    down.upstream.dataReceived(b"a\r\ndata: {}\n\n\r\n0\r\n\r\n")
    assert down.relay.first_byte == 1.0
    assert told == []


def test_the_end_goes_out_with_what_came_with_it():
    """Otherwise each read is a write."""
    down = Down()
    down.upstream.dataReceived(b"1\r\na\r\n")
    down.upstream.dataReceived(b"1\r\nb\r\n1\r\nc\r\n0\r\n\r\n")
    assert down.transport.pieces == [b"1\r\na\r\n", b"2\r\nbc\r\n0\r\n\r\n"]


def test_so_does_what_a_translation_says_at_the_end():
    down = Down(Ending(b"bye"))
    down.upstream.dataReceived(b"1\r\na\r\n0\r\n\r\n")
    assert down.transport.pieces == [b"1\r\na\r\n3\r\nbye\r\n0\r\n\r\n"]


def test_what_came_before_a_translation_failed_is_sent():
    """Without the end that it had waited for."""
    down = Down(Ending(None))
    down.upstream.dataReceived(b"1\r\na\r\n0\r\n\r\n")
    assert down.transport.pieces == [b"1\r\na\r\n"]
    assert down.transport.disconnecting
    assert [str(failure.value) for failure in down.failures] == ["it makes no sense"]
