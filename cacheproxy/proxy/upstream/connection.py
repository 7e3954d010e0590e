"""One connection to the upstream: one request, one response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IHandshakeListener,
    IProtocol,
    IPushProducer,
    IReactorTime,
    ISSLTransport,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import ClientFactory, Protocol
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http_headers import Headers as TwistedHeaders
from twisted.web.iweb import IResponse
from zope.interface import implementer

from cacheproxy.core.http1.response_head import ResponseHead
from cacheproxy.core.http1.response_reader import ResponseError, ResponseReader
from cacheproxy.proxy.transport import eager
from cacheproxy.proxy.upstream import tls
from cacheproxy.proxy.upstream.silence import Silence, UpstreamSilent

if TYPE_CHECKING:
    from twisted.internet.interfaces import ITCPTransport

_JOINED = 64 << 10
"""Bytes of body below which head and body are sent as one piece: a copy costs less than a call."""
_WHOLE = Failure(ResponseDone())
"""How a body ends that came whole; making one for each costs 8 µs."""
_FLUSH_SECONDS = 2.0
"""How long an upstream that answered early may take to swallow the rest of the request; also to
answer that TLS ends."""


@implementer(IHandshakeListener)
class UpstreamConnection(Protocol):
    """Writes the request when connected, reads the response, closes.

    ``start`` returns the Deferred that fires with the response when its head is whole;
    cancelling it aborts the connection, or the attempt. ``silence``: seconds for which the
    upstream may say nothing, 0 for ever. ``handshake``: within which TLS must have come about, 0
    where there is none.
    """

    transport: ITCPTransport
    is_whole = False
    """Whether the end of the response has come; to whom the last of its body is delivered."""

    def __init__(
        self,
        head: bytes,
        body: bytes,
        method: bytes,
        clock: IReactorTime,
        silence: float,
        *,
        handshake: float = 0.0,
    ) -> None:
        self.response: UpstreamResponse | None = None
        self._clock = clock
        self._silence = Silence(clock, silence, self._too_long)
        self._request = (head, body)
        self._reader = ResponseReader(method)
        self._answer: Deferred[IResponse] | None = Deferred(lambda _: self.abort())
        self._connecting: Deferred[Any] | None = None
        self._closing: IDelayedCall | None = None
        self._handshake_seconds = handshake
        self._handshake: IDelayedCall | None = None
        self._is_gone = False

    def start(self, endpoint: IStreamClientEndpoint) -> Deferred[IResponse]:
        """Connect through ``endpoint`` and send the request."""
        answer = self._answer
        assert answer is not None
        if self._handshake_seconds:
            self._handshake = self._clock.callLater(self._handshake_seconds, self._no_tls)
        connecting = endpoint.connect(_Only(self))
        if self.transport is None:
            self._connecting = connecting
        connecting.addErrback(self._fail)
        return answer

    def connectionMade(self) -> None:
        """Write the whole request at once: the transport keeps what the socket does not take."""
        self._connecting = None
        if self._answer is None:  # cancelled while connecting
            self.transport.abortConnection()
            return
        if hasattr(self.transport, "setTcpNoDelay"):
            self.transport.setTcpNoDelay(True)
        head, body = self._request
        for piece in (head + body,) if len(body) < _JOINED else (head, body):
            eager.write(self.transport, piece)
        self._silence.heard()

    def handshakeCompleted(self) -> None:  # noqa: N802 - Twisted's name
        """TLS has come about."""
        if self._handshake is not None and self._handshake.active():
            self._handshake.cancel()

    def dataReceived(self, data: bytes) -> None:
        """Read on; pass body bytes to whoever the body is delivered to."""
        self._silence.heard()
        try:
            body = self._reader.feed(data)
        except ResponseError:
            self._lost(Failure())
            self.abort()
            return
        if self.response is None and self._reader.head is not None:
            goes_on = bool(body) or self._reader.done
            self.response = UpstreamResponse(self, self._reader.head, goes_on=goes_on)
            answer, self._answer = self._answer, None
            if answer is not None:
                answer.callback(self.response)
        if self.response is not None:
            self.is_whole = self._reader.done
            if body:
                self.response.body_received(body)
            if self.is_whole:
                self.response.body_ended(_WHOLE)
                self._close()

    def connectionLost(self, reason: Failure = Failure(ConnectionDone())) -> None:  # noqa: B008
        """The end, early or not: an early one is an error, never a clean end.

        TLS that ends without saying so is early, too (RFC 9112, section 9.8).
        """
        self._silence.stop()
        self.handshakeCompleted()
        if self._closing is not None and self._closing.active():
            self._closing.cancel()
        self._is_gone = True
        self._ended(reason)
        self.response = None  # a cycle would keep both until the garbage collector comes

    def _ended(self, reason: Failure) -> None:
        if self._reader.done:
            return
        if not isinstance(reason.value, ConnectionDone):
            why = tls.problem(reason.value) or "the upstream reset the connection"
            self._lost(Failure(ResponseError(why)))
            return
        try:
            self._reader.close()
        except ResponseError:
            self._lost(Failure())
        else:
            assert self.response is not None
            self.response.body_ended(_WHOLE)

    def abort(self) -> None:
        """Close at once, whatever is going on: this is what frees the server's slot."""
        self._answer = None
        self._silence.stop()
        self.handshakeCompleted()
        if self._connecting is not None and self.transport is None:
            self._connecting.cancel()
        elif self.transport is not None:
            self.transport.abortConnection()

    def pauseProducing(self) -> None:
        """Stop reading from the upstream: the client does not keep up."""
        self._silence.hold()
        self._producer().pauseProducing()

    def resumeProducing(self) -> None:
        """Read on."""
        self._silence.go_on()
        self._producer().resumeProducing()

    def _producer(self) -> IPushProducer:
        return cast("IPushProducer", self.transport)

    def _close(self) -> None:
        self._silence.stop()
        self.transport.loseConnection()
        if self._is_gone:
            return
        # It may have answered without reading all of it; and TLS waits for an answer to its end.
        if len(self._request[1]) > 1 << 16 or ISSLTransport.providedBy(self.transport):
            self._closing = self._clock.callLater(_FLUSH_SECONDS, self.transport.abortConnection)

    def _too_long(self, silent: UpstreamSilent) -> None:
        self._lost(Failure(silent))
        self.abort()

    def _no_tls(self) -> None:
        self._lost(Failure(ResponseError(tls.NOT_IN_TIME)))
        self.abort()

    def _fail(self, failure: Failure) -> None:
        self.handshakeCompleted()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.errback(failure)

    def _lost(self, failure: Failure) -> None:
        if self.response is None:
            self._fail(failure)
        else:
            self.response.body_ended(failure)


class _Only(ClientFactory):
    """The factory of the one connection that is already made."""

    noisy = False

    def __init__(self, connection: UpstreamConnection) -> None:
        self._connection = connection

    def buildProtocol(self, addr: IAddress | None) -> UpstreamConnection:  # noqa: ARG002
        """Return it."""
        return self._connection


class _NoHeaders(TwistedHeaders):
    """What treq sees of a response's headers: none, and it can put none there."""

    def setRawHeaders(self, name: Any, values: Any) -> None:
        """Put nothing there."""


@implementer(IResponse)
class UpstreamResponse:
    """A response as treq wants it, with the upstream's own head beside.

    ``goes_on``: the body, or its end, has come with the head and is delivered right after it.
    ``head`` is what the exchange passes on. treq's wrappers see no headers, so they have
    nothing to decode, and no cookies to keep.
    """

    version = (b"HTTP", 1, 1)
    request = None
    previousResponse = None
    headers = _NoHeaders()

    def __init__(
        self, connection: UpstreamConnection, head: ResponseHead, *, goes_on: bool = False
    ) -> None:
        self.head = head
        self.goes_on = goes_on
        self.connection = connection
        self.code = head.status
        self.phrase = head.reason
        self.length = 0 if head.length is None else head.length
        self._protocol: IProtocol | None = None
        self._early: list[bytes] = []
        self._end: Failure | None = None

    def deliverBody(self, protocol: IProtocol) -> None:
        """Deliver the body to ``protocol`` as it comes; its connectionLost says how it ended."""
        self._protocol = protocol
        protocol.makeConnection(self.connection)  # type: ignore[arg-type]
        early, self._early = self._early, []
        for data in early:
            protocol.dataReceived(data)
        if self._end is not None:
            protocol.connectionLost(self._end)
        elif early:
            self.connection.resumeProducing()

    def take_back(self, pieces: list[bytes]) -> None:
        """Keep what was delivered until the body is wanted again, by somebody else."""
        self._protocol = None
        self._early = pieces

    def setPreviousResponse(self, response: IResponse) -> None:
        """Redirects are not followed, so there is none."""

    def body_received(self, data: bytes) -> None:
        """Pass on body bytes, or keep them until somebody wants the body."""
        if self._protocol is not None:
            self._protocol.dataReceived(data)
        else:
            self._early.append(data)
            self.connection.pauseProducing()

    def body_ended(self, reason: Failure) -> None:
        """Pass on how the body ended: ResponseDone, or an error. The first word counts."""
        if self._end is None:
            self._end = reason
            protocol, self._protocol = self._protocol, None
            if protocol is not None:
                protocol.connectionLost(reason)
