"""The response is an IResponse: what is made for those of Twisted reads it, too."""

from __future__ import annotations

import pytest
import treq
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.client import readBody
from twisted.web.iweb import UNKNOWN_LENGTH, IResponse
from zope.interface.verify import verifyObject

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.proxy.upstream.connection import UpstreamConnection, collect, peek

HEAD = b"HTTP/1.1 201 Made\r\nX-A: 1\r\nx-a: 2\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def answered(data):
    connection = UpstreamConnection(b"", b"", b"POST", Clock(), 0)
    connection.makeConnection(StringTransport())
    connection.dataReceived(HEAD + data)
    return connection


def test_it_has_all_that_an_iresponse_has():
    response = answered(CHUNKED)
    assert verifyObject(IResponse, response)
    assert (response.code, response.phrase, response.length) == (201, b"Made", UNKNOWN_LENGTH)
    assert response.headers.getRawHeaders(b"X-A") == [b"1", b"2"]
    assert answered(b"Content-Length: 3\r\n\r\nabc").length == 3


def test_a_whole_response_closes_the_connection():
    assert answered(b"Content-Length: 3\r\n\r\nabc").transport.disconnecting
    assert not answered(b"Content-Length: 3\r\n\r\nab").transport.disconnecting


class Nowhere:
    """An endpoint that is still connecting; ``given_up`` has what was cancelled."""

    def __init__(self):
        self.given_up = []

    def connect(self, _):
        return Deferred(self.given_up.append)


@pytest.mark.parametrize("is_connected", [True, False])
def test_an_attempt_that_is_cancelled_leaves_nothing_behind(is_connected):
    """Neither a timer nor an attempt to connect."""
    clock, endpoint, found = Clock(), Nowhere(), []
    connection = UpstreamConnection(b"", b"", b"POST", clock, 5, handshake=9)
    answer = connection.start(endpoint).addErrback(found.append)
    if is_connected:
        connection.makeConnection(StringTransport())
    assert clock.getDelayedCalls()
    answer.cancel()
    assert clock.getDelayedCalls() == []
    assert len(endpoint.given_up) == (not is_connected)
    assert not is_connected or connection.transport.disconnected
    assert found[0].check(CancelledError)


@pytest.mark.parametrize("read", [readBody, treq.content])
def test_others_read_its_body(read):
    """What came with the head, and what came later; or why it did not come whole."""
    response = answered(CHUNKED + b"1\r\na\r\n")
    assert response.transport.producerState == "paused"
    found = []
    read(response).addBoth(found.append)
    assert response.transport.producerState == "producing"
    response.dataReceived(b"1\r\nb\r\n")
    assert found == []
    response.dataReceived(b"0\r\n\r\n")
    assert found == [b"ab"]
    response = answered(CHUNKED)
    read(response).addErrback(found.append)
    response.dataReceived(b"nonsense")
    assert found[1].check(ResponseError)


def test_who_raises_while_reading_closes_the_connection():
    """And is told of it."""
    response, found = answered(CHUNKED), []

    def refuse(_):
        raise ValueError

    treq.collect(response, refuse).addErrback(found.append)
    response.dataReceived(b"1\r\na\r\n")
    assert response.transport.disconnected
    assert found[0].check(ValueError)


def test_who_collects_it_and_gives_up_closes_the_connection():
    """So does one whom it is too long for; the connection's own reason is told otherwise."""
    response, found = answered(CHUNKED), []
    collecting = Deferred.fromCoroutine(collect(response, 2))
    collecting.addErrback(found.append)
    collecting.cancel()
    assert response.transport.disconnected
    assert found[0].check(CancelledError)
    for length, closes in ((2, False), (3, True)):
        response = answered(CHUNKED)
        Deferred.fromCoroutine(collect(response, 2)).addBoth(found.append)
        response.dataReceived(b"%x\r\n%b\r\n" % (length, b"x" * length))
        assert response.transport.disconnected is closes
    assert found[1].check(ResponseError)


@pytest.mark.parametrize(("length", "whole"), [(2, b"xx"), (3, None)])
def test_a_body_that_was_peeked_at_is_delivered_all_the_same(length, whole):
    """One that is too long waits at the upstream meanwhile."""
    response, found = answered(CHUNKED), []
    Deferred.fromCoroutine(peek(response, 2)).addCallback(found.append)
    response.dataReceived(b"%x\r\n%b\r\n" % (length, b"x" * length))
    assert found == [None] * (whole is None)
    assert (response.transport.producerState == "paused") is (whole is None)
    if whole is not None:
        response.dataReceived(b"0\r\n\r\n")
    assert found == [whole]
    treq.content(response).addCallback(found.append)
    assert response.transport.producerState == "producing"
    if whole is None:
        response.dataReceived(b"0\r\n\r\n")
    assert found[1] == b"x" * length
