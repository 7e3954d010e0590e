"""Our own pages, which the keeper makes and workers are asked for.

A worker makes a pair of sockets for each request, sends one end to the keeper, and relays what
comes out of the other, as from an upstream. So a stream of events flows, a client that does not
read is waited for, and one that leaves is noticed; no file and no port is needed.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from cacheproxy.core.http1.headers import end_to_end, for_client, values
from cacheproxy.crew.line import Line
from cacheproxy.crew.messages import Page
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.relay import Relay
from cacheproxy.proxy.upstream.connection import UpstreamConnection, UpstreamResponse

_log = Logger()
_REWRITTEN = frozenset({b"content-length", b"expect"})


class Pages:
    """Answers requests for our own pages with what the keeper says; ``open`` is how many wait."""

    def __init__(self, line: Line, reactor: Any) -> None:
        self.open = 0
        self._endpoint = _KeeperEndpoint(line, reactor)
        self._reactor = reactor

    def __call__(self, request: ProxyRequest) -> int:
        """Answer; the channel has let the request in."""
        self.open += 1
        done = Deferred.fromCoroutine(self._relay(request))
        request.on_gone(lambda _: done.cancel())
        done.addErrback(self._failed, request)
        done.addBoth(self._over)
        return NOT_DONE_YET

    async def _relay(self, request: ProxyRequest) -> None:
        connection = UpstreamConnection(
            _head(request), request.body, request.method, self._reactor, 0.0
        )
        response = await connection.start(self._endpoint)
        assert isinstance(response, UpstreamResponse)
        found = response.head
        chunked = values(found.headers, b"transfer-encoding")
        headers = for_client(found.headers, frozenset({b"content-length"} if chunked else ()))
        request.send_head(found.status, found.reason, headers)
        relay = Relay(request, connection, None, self._reactor, self._reactor.seconds)
        response.deliverBody(relay)
        if not response.goes_on:
            request.flush()
        await relay.done

    def _failed(self, failure: Failure, request: ProxyRequest) -> None:
        if failure.check(CancelledError) or request.started:
            return  # the client has left, or been left by the relay
        why = failure.getErrorMessage()
        _log.warn("one of our own pages could not be had: {why}", why=why)
        request.write(request.answer(503, "the keeper of this proxy does not answer"))
        request.finish()

    def _over(self, _: object) -> None:
        self.open -= 1


@implementer(IStreamClientEndpoint)
class _KeeperEndpoint:
    """Connects to the keeper's own pages."""

    def __init__(self, line: Line, reactor: Any) -> None:
        self._line = line
        self._reactor = reactor

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Fire at once with the connected protocol."""
        if not self._line.is_open:
            return fail(ConnectError(string="the keeper is gone"))
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            return fail(ConnectError(error.errno, os.strerror(error.errno or 0)))
        self._line.tell(Page(), descriptor=theirs.detach())
        return succeed(adopt_connection(self._reactor, ours.detach(), protocolFactory))


def adopt_connection(reactor: Any, descriptor: int, factory: Any) -> Any:
    """Return the protocol that ``factory`` makes for one end of a pair of sockets."""
    made: list[Any] = []

    class Noting:
        """Notes what is made."""

        def buildProtocol(self, addr: Any) -> Any:
            made.append(factory.buildProtocol(addr))
            return made[0]

    os.set_blocking(descriptor, False)
    try:
        reactor.adoptStreamConnection(descriptor, socket.AF_UNIX, Noting())
    finally:
        os.close(descriptor)  # it is a copy that is used
    return made[0]


def _head(request: ProxyRequest) -> bytes:
    lines = [request.method + b" " + request.uri + b" HTTP/1.1"]
    if not values(request.headers, b"host"):  # HTTP/1.0 knows such requests
        lines.append(b"Host: localhost")
    lines += [name + b": " + value for name, value in end_to_end(request.headers, _REWRITTEN)]
    lines.append(b"Content-Length: %d" % len(request.body))
    lines.append(b"Connection: close\r\n\r\n")
    return b"\r\n".join(lines)
