"""The response is an IResponse: what is made for those of Twisted reads it, too."""

import pytest
import treq
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.client import readBody
from twisted.web.iweb import UNKNOWN_LENGTH, IResponse
from zope.interface.verify import verifyObject

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.proxy.upstream.body import collect, peek
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.proxy.upstream.failures import UpstreamSilent
from tests.proxy.harness import LAST, chunk

HEAD = b"HTTP/1.1 201 Made\r\nX-A: 1\r\nx-a: 2\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH = b"Content-Length: 3\r\n\r\n"


def answered(*data, silence=0, clock=None):
    connection = UpstreamConnection(b"", b"", b"POST", clock or Clock(), silence)
    connection.makeConnection(StringTransport())
    connection.dataReceived(HEAD + b"".join(data))
    return connection


def test_it_has_all_that_an_iresponse_has():
    response = answered(CHUNKED)
    assert verifyObject(IResponse, response)
    assert (response.code, response.phrase, response.length) == (201, b"Made", UNKNOWN_LENGTH)
    assert response.headers.getRawHeaders(b"X-A") == [b"1", b"2"]
    assert answered(LENGTH, b"abc").length == 3
    assert answered(LENGTH, b"abc").transport.disconnecting
    assert not answered(LENGTH, b"ab").transport.disconnecting


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_upstream_that_answered_early_is_left_in_the_end(is_gone):
    """It has two seconds for the rest of the request."""
    clock = Clock()
    response = UpstreamConnection(b"", b"x" * 70_000, b"POST", clock, 0)
    response.makeConnection(StringTransport())
    response.dataReceived(HEAD + LENGTH + b"abc")
    assert response.transport.disconnecting
    clock.advance(1.9)
    if is_gone:
        response.connectionLost(Failure(ConnectionDone()))
        assert clock.getDelayedCalls() == []
    assert not response.transport.disconnected
    clock.advance(0.1)
    assert response.transport.disconnected is not is_gone


class Attempt:
    """An attempt to get an answer, by ``clock``; ``found`` is what came of it."""

    def __init__(self, *, is_connected):
        self.clock, self.given_up, self.found = Clock(), [], []
        self.connection = UpstreamConnection(b"", b"", b"POST", self.clock, 5, handshake=9)
        self.answer = self.connection.start(self)
        self.answer.addErrback(self.found.append)
        if is_connected:
            self.connection.makeConnection(StringTransport())
            self.connection.handshakeCompleted()

    def connect(self, _):
        return Deferred(self.given_up.append)


@pytest.mark.parametrize("is_connected", [True, False])
def test_an_attempt_that_is_cancelled_leaves_nothing_behind(is_connected):
    attempt = Attempt(is_connected=is_connected)
    assert attempt.clock.getDelayedCalls()
    attempt.answer.cancel()
    assert attempt.clock.getDelayedCalls() == []
    assert len(attempt.given_up) == (not is_connected)
    assert not is_connected or attempt.connection.transport.disconnected
    assert attempt.found[0].check(CancelledError)


BEFORE = {"nothing": b"", "half a head": b"HTTP/1.1 2", "interim": b"HTTP/1.1 100 Go on\r\n\r\n"}


@pytest.mark.parametrize("said", BEFORE.values(), ids=BEFORE)
def test_silence_before_the_head_is_the_answers_failure(said):
    """It is closed; each byte begins the time anew."""
    attempt = Attempt(is_connected=True)
    for byte in said:
        attempt.clock.advance(4.9)
        attempt.connection.dataReceived(bytes([byte]))
    attempt.clock.advance(4.9)
    assert attempt.found == []
    attempt.clock.advance(0.1)
    assert attempt.found[0].check(UpstreamSilent)
    assert attempt.connection.transport.disconnected
    assert attempt.clock.getDelayedCalls() == []


@pytest.mark.parametrize("read", [readBody, treq.content])
def test_others_read_its_body(read):
    """What came with the head, and what came later; or why it did not come whole."""
    response = answered(CHUNKED, chunk(b"a"))
    assert response.transport.producerState == "paused"
    found = []
    read(response).addBoth(found.append)
    assert response.transport.producerState == "producing"
    response.dataReceived(chunk(b"b"))
    assert found == []
    response.dataReceived(LAST)
    assert found == [b"ab"]
    response = answered(CHUNKED)
    read(response).addErrback(found.append)
    response.dataReceived(b"nonsense")
    assert found[1].check(ResponseError)


def test_who_raises_while_reading_closes_the_connection():
    response, found = answered(CHUNKED), []

    def refuse(_):
        raise ValueError

    treq.collect(response, refuse).addErrback(found.append)
    response.dataReceived(chunk(b"a"))
    assert response.transport.disconnected
    assert found[0].check(ValueError)


def test_who_collects_it_and_gives_up_closes_the_connection():
    """Unless it is another's by then. So does one whom it is too long for."""
    response, found = answered(CHUNKED), []
    Deferred.fromCoroutine(collect(response, 2)).addErrback(found.append).cancel()
    assert response.transport.disconnected
    assert found[0].check(CancelledError)
    response, after = answered(CHUNKED), []
    collecting = Deferred.fromCoroutine(collect(response, 2)).addErrback(found.append)
    response.dataReceived(chunk(b"a"))
    response.attach().addCallback(treq.content).addCallback(after.append)
    collecting.cancel()
    response.dataReceived(chunk(b"b") + LAST)
    assert (after, response.transport.disconnected) == ([b"ab"], False)
    found.pop()
    for length, closes in ((2, False), (3, True)):
        response = answered(CHUNKED)
        Deferred.fromCoroutine(collect(response, 2)).addBoth(found.append)
        response.dataReceived(chunk(b"x" * length))
        assert response.transport.disconnected is closes
    assert found[1].check(ResponseError)


@pytest.mark.parametrize(("length", "waited"), [(2, 4), (3, 0), (2, 5)])
def test_a_body_that_was_peeked_at_is_delivered_all_the_same(length, waited):
    """One that is too long, or takes too long, waits at the upstream meanwhile."""
    response, found, body, clock = answered(CHUNKED), [], b"x" * length, Clock()
    Deferred.fromCoroutine(peek(response, 2, clock, 5)).addCallback(found.append)
    response.dataReceived(chunk(body))
    clock.advance(waited)
    is_long = length > 2 or waited == 5
    assert bool(clock.getDelayedCalls()) is not is_long
    assert found == [None] * is_long
    assert (response.transport.producerState == "paused") is is_long
    if not is_long:
        response.dataReceived(LAST)
        assert found == [body]
    treq.content(response).addCallback(found.append)
    assert response.transport.producerState == "producing"
    if is_long:
        response.dataReceived(LAST)
    assert found[1] == body
