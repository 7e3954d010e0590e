"""One connection to the upstream: one request, one response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IHandshakeListener,
    IProtocol,
    IProtocolFactory,
    IPushProducer,
    ISSLTransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.iweb import UNKNOWN_LENGTH, IResponse
from zope.interface import implementer

from cacheproxy.core.http1.response_reader import ResponseError, ResponseReader
from cacheproxy.proxy.transport import eager
from cacheproxy.proxy.transport.deadline import Deadline
from cacheproxy.proxy.upstream.endpoints import DirectConnection
from cacheproxy.proxy.upstream.failures import NOT_IN_TIME, UpstreamSilent, problem_of_tls
from cacheproxy.proxy.upstream.response import ResponseHeadParts

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IDelayedCall, IReactorTime, IStreamClientEndpoint

_JOINED = 64 << 10
"""Bytes of body below which head and body are sent in one piece: a copy costs less than a call."""
_FLUSH_SECONDS = 2.0
"""Seconds in which an upstream that answered early has to read the rest of the request, or to
answer the end of TLS."""

WHOLE = Failure(ResponseDone())
"""Reason with which a whole body ends."""


@implementer(IResponse, IPushProducer, IHandshakeListener, IProtocolFactory)
class UpstreamConnection(ResponseHeadParts, Protocol):
    """One connection to the upstream: it writes the request, reads the response, and closes.

    The Deferred of ``start`` fires with the connection when the response's ``head`` is whole;
    cancelling it aborts the connection, or the attempt to connect. From then on the connection is
    an IResponse: the body waits until ``deliverBody`` names a protocol (treq's ``collect`` does,
    for one), and is the protocol's transport, with back-pressure. While ``retained`` is not None,
    another protocol may get the body afterwards, from its beginning, and another caller the head
    (``attach``). ``silence``: seconds that the upstream may send nothing, 0 for no limit.
    ``handshake``: seconds for the TLS handshake, 0 without TLS. The connection is also the factory
    of its protocol, which is itself.
    """

    transport: Any  # ITCPTransport and IPushProducer
    is_whole = False
    """Whether the end of the response has come; set before the body's last bytes are delivered."""
    _until: float | None  # end of the silence, while ``no_head`` is due before
    no_head: tuple[float, Callable[[], object]] | None = None
    """Seconds, and a callback that is called if no head has come by then; None: no callback."""

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
        self._clock = clock
        self._silence = Deadline(clock, self._is_silent, silence)
        self._request = (head, body)
        self._response = ResponseReader(method)
        self._answer: Deferred[UpstreamConnection] | None = Deferred(self._unwanted)
        self._connecting: Deferred[Any] | None = None
        self._closing: IDelayedCall | None = None
        self._handshake_seconds = handshake
        self._handshake: IDelayedCall | None = None
        self._is_gone = False
        self.has_head = False  #: whether the response's head has come
        self.retained: list[bytes] | None = []
        """Bytes of the body that have come; None: the body gets no further reader."""
        self._reader: IProtocol | None = None
        self._is_paused = self._is_aborted = False
        self._ended: Failure | None = None

    # The request.

    def start(self, endpoint: IStreamClientEndpoint) -> Deferred[UpstreamConnection]:
        """Connect through ``endpoint`` and send the request."""
        answer = self._answer
        assert answer is not None
        if self._handshake_seconds:
            self._handshake = self._clock.callLater(
                self._handshake_seconds, self._give_up, ResponseError(NOT_IN_TIME)
            )
        connecting = endpoint.connect(self)
        if self.transport is None:
            self._connecting = connecting
            connecting.addErrback(self._fail)
        return answer

    def buildProtocol(self, addr: object) -> UpstreamConnection:  # noqa: ARG002
        """Return the connection itself."""
        return self

    def doStart(self) -> None:  # noqa: N802 - Twisted's name
        """Do nothing: the factory makes one connection."""

    doStop = doStart  # noqa: N815 - Twisted's name

    def connectionMade(self) -> None:
        """Write the whole request at once: the transport buffers what the socket does not take."""
        self._connecting = None
        transport = self.transport
        if self._is_aborted:  # while connecting
            transport.abortConnection()
            return
        if not isinstance(transport, DirectConnection) and hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        head, body = self._request
        if len(body) < _JOINED:
            eager.write(transport, head + body)
        else:
            eager.write(transport, head)
            eager.write(transport, body)
        self._await_head()

    def handshakeCompleted(self) -> None:  # noqa: N802 - Twisted's name
        """Stop the timer of the TLS handshake."""
        if self._handshake is not None and self._handshake.active():
            self._handshake.cancel()

    def attach(
        self, no_head: tuple[float, Callable[[], object]] | None = None
    ) -> Deferred[UpstreamConnection]:
        """Return a Deferred like that of ``start``, for a new caller; the present one may leave."""
        waiting: Deferred[UpstreamConnection] = Deferred(self._unwanted)
        self._reader = None
        if self.has_head:
            waiting.callback(self)
        else:
            self._answer, self.no_head = waiting, no_head
            self._await_head()
        return waiting

    def _unwanted(self, waiting: Deferred[UpstreamConnection]) -> None:
        if waiting is self._answer:
            self.abort()

    def _await_head(self) -> None:
        """Begin to measure the silence; ``no_head``, if it is due earlier, is called first."""
        limit, no_head, self._until = self._silence.limit, self.no_head, None
        if no_head is not None and not 0 < limit <= no_head[0]:
            limit = no_head[0]
        else:
            self.no_head = None
        if limit:
            self._silence.set(limit)
        else:
            self._silence.moment = None

    # The response.

    def dataReceived(self, data: bytes) -> None:
        """Parse the response; deliver the bytes of its body."""
        silence, response = self._silence, self._response
        try:
            body = response.feed(data)
        except ResponseError:
            self._broken(Failure())
            self.abort()
            return
        if not response.done:  # else the silence is over
            if silence.moment is None:
                silence.heard()
            else:  # the same inlined, since every chunk comes by here
                moment = silence.seconds() + silence.limit
                if self.no_head is None:
                    silence.moment = moment
                else:  # an interim response is no head
                    self._until = moment
        head, reader = response.head, self._reader
        if head is None:
            return
        self.is_whole = response.done
        if body and self.retained is not None:
            self.retained.append(body)
        if not self.has_head:  # the body's beginning that came with it goes down with it
            self.has_head, self.head = True, head
            self.length = UNKNOWN_LENGTH if head.length is None else head.length
            if self.no_head is not None:
                self.no_head, silence.moment = None, self._until if silence.limit else None
            if self.is_whole:
                self._ended = WHOLE
            answer, self._answer = self._answer, None
            if answer is not None:
                answer.callback(self)
            reader = self._reader
        elif body and reader is not None:
            reader.dataReceived(body)
        if body and reader is None and not self.is_whole:
            self.pauseProducing()
        if self.is_whole:
            if self._ended is None:
                self._end(WHOLE)
            self._close()

    # The response's body.

    def deliverBody(self, protocol: IProtocol) -> None:
        """Deliver the body to ``protocol``, its retained bytes at once.

        The protocol's ``connectionLost`` gets ResponseDone if the body came whole, else the
        failure.
        """
        self._reader = protocol
        protocol.makeConnection(self)  # type: ignore[arg-type]
        was_paused = self._is_paused
        if self.retained:
            for data in tuple(self.retained):
                protocol.dataReceived(data)
        if self._ended is not None:
            self._end(self._ended)
        elif was_paused:
            self.resumeProducing()

    def close_unread_by(self, protocol: IProtocol) -> None:
        """Close the connection, if ``protocol`` is the reader of its body."""
        if self._reader is protocol:
            self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """End the response; if the body is not whole by its framing, with an error.

        TLS without a closing alert leaves it incomplete, too (RFC 9112, section 9.8).
        """
        self._is_gone = True
        if self._closing is not None and self._closing.active():
            self._closing.cancel()
        if self._response.done:
            return
        self._stop_timers()
        if not isinstance(reason.value, ConnectionDone):
            why = problem_of_tls(reason.value) or "the upstream reset the connection"
            self._broken(Failure(ResponseError(why)))
            return
        try:
            self._response.close()
        except ResponseError:
            self._broken(Failure())
        else:
            self._end(WHOLE)

    def abort(self) -> None:
        """Close at once, in any state: only this frees the server's slot."""
        self._answer = self.no_head = None
        self._is_aborted = True
        self._stop_timers()
        if self._connecting is not None and self.transport is None:
            self._connecting.cancel()
        elif self.transport is not None:
            self.transport.abortConnection()

    stopProducing = loseConnection = abortConnection = abort  # noqa: N815 - Twisted's

    def pauseProducing(self) -> None:
        """Stop reading from the upstream: the client does not keep up."""
        self._is_paused = True
        self._silence.hold()
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Go on reading from the upstream."""
        self._is_paused = False
        self._silence.go_on()
        self.transport.resumeProducing()

    def _close(self) -> None:
        self._silence.stop()
        if self._handshake is not None:
            self.handshakeCompleted()
        self.transport.loseConnection()
        if self._is_gone:
            return
        # The upstream may have answered without reading the whole request; and TLS waits for the
        # upstream's closing alert.
        if len(self._request[1]) > 1 << 16 or ISSLTransport.providedBy(self.transport):
            self._closing = self._clock.callLater(_FLUSH_SECONDS, self.transport.abortConnection)

    def _stop_timers(self) -> None:
        self._silence.stop()
        if self._handshake is not None:
            self.handshakeCompleted()

    def _is_silent(self) -> None:
        no_head, self.no_head = self.no_head, None
        if no_head is not None and not self.has_head:
            silence, until = self._silence, self._until
            if silence.limit:
                left = silence.limit - no_head[0] if until is None else until - silence.seconds()
                silence.set(max(0.0, left))
            no_head[1]()
            return
        self._give_up(UpstreamSilent(self._silence.limit))

    def _give_up(self, error: Exception) -> None:
        self._broken(Failure(error))
        self.abort()

    def _fail(self, failure: Failure) -> None:
        self._stop_timers()
        answer, self._answer, self.no_head = self._answer, None, None
        if answer is not None:
            answer.errback(failure)

    def _broken(self, failure: Failure) -> None:
        if not self.has_head:
            self._fail(failure)
        else:
            self._end(failure)

    def _end(self, why: Failure) -> None:
        """Report the body's end to its reader; the first reason counts."""
        why = self._ended = self._ended or why
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.connectionLost(why)
