"""One connection to the upstream: one request, one response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from typing import Protocol as Shape

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener, ISSLTransport
from twisted.internet.protocol import ClientFactory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from cacheproxy.core.http1.response_reader import ResponseError, ResponseReader
from cacheproxy.proxy.transport import eager
from cacheproxy.proxy.transport.deadline import Silence
from cacheproxy.proxy.upstream.failures import NOT_IN_TIME, UpstreamSilent, problem_of_tls

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall, IReactorTime, IStreamClientEndpoint

    from cacheproxy.core.http1.response_reader import ResponseHead

_JOINED = 64 << 10
"""Bytes of body below which head and body are sent as one piece: a copy costs less than a call."""
_FLUSH_SECONDS = 2.0
"""How long an upstream that answered early may take to swallow the rest of the request; also to
answer that TLS ends."""


class BodyReader(Shape):
    """Who a response's body is delivered to."""

    def take(self, data: bytes) -> None:
        """Take the next bytes of the body."""

    def end(self, why: Failure | None) -> None:
        """Take note that the body has ended. ``why``: None if it came whole. Called once."""


@implementer(IHandshakeListener)
class UpstreamConnection(Protocol):
    """Writes the request when connected, reads the response, closes.

    ``start`` returns the Deferred that fires when the response's ``head`` is whole; cancelling it
    aborts the connection, or the attempt. The body goes to whoever it is delivered to, and waits
    until then. ``silence``: seconds for which the upstream may say nothing, 0 for ever.
    ``handshake``: within which TLS must have come about, 0 where there is none.
    """

    transport: Any  # ITCPTransport and IPushProducer
    head: ResponseHead
    """The response's, once ``start`` has fired."""
    is_whole = False
    """Whether the end of the response has come; to whom the last of its body is delivered."""
    goes_on = False
    """Whether the body, or its end, has come with the head and is delivered right after it."""

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
        self._silence = Silence(clock, silence, lambda: self._give_up(UpstreamSilent(silence)))
        self._request = (head, body)
        self._response = ResponseReader(method)
        self._answer: Deferred[None] | None = Deferred(lambda _: self.abort())
        self._connecting: Deferred[Any] | None = None
        self._closing: IDelayedCall | None = None
        self._handshake_seconds = handshake
        self._handshake: IDelayedCall | None = None
        self._is_gone = False
        self._has_head = False
        self._reader: BodyReader | None = None
        self._early: list[bytes] = []
        self._ended: list[Failure | None] = []

    # The request.

    def start(self, endpoint: IStreamClientEndpoint) -> Deferred[None]:
        """Connect through ``endpoint`` and send the request."""
        answer = self._answer
        assert answer is not None
        if self._handshake_seconds:
            self._handshake = self._clock.callLater(
                self._handshake_seconds, self._give_up, ResponseError(NOT_IN_TIME)
            )
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

    # The response.

    def dataReceived(self, data: bytes) -> None:
        """Read on; pass body bytes on."""
        self._silence.heard()
        response = self._response
        try:
            body = response.feed(data)
        except ResponseError:
            self._broken(Failure())
            self.abort()
            return
        if not self._has_head:
            if response.head is None:
                return
            self._has_head = True
            self.head = response.head
            self.goes_on = bool(body) or response.done
            answer, self._answer = self._answer, None
            if answer is not None:
                answer.callback(None)
        self.is_whole = response.done
        if body:
            if self._reader is not None:
                self._reader.take(body)
            else:
                self._early.append(body)
                self.pauseProducing()
        if self.is_whole:
            self._end(None)
            self._close()

    def deliver(self, reader: BodyReader) -> None:
        """Deliver the body to ``reader``, what has come of it at once."""
        self._reader = reader
        early, self._early = self._early, []
        for data in early:
            reader.take(data)
        if self._ended:
            self._tell_end(self._ended[0])
        elif early:
            self.resumeProducing()

    def take_back(self, pieces: list[bytes]) -> None:
        """Keep what was delivered until the body is wanted again, by somebody else."""
        self._reader = None
        self._early = pieces

    def connectionLost(self, reason: Failure = Failure(ConnectionDone())) -> None:  # noqa: B008
        """The end, early or not: an early one is an error, never a clean end.

        TLS that ends without saying so is early, too (RFC 9112, section 9.8).
        """
        self._silence.stop()
        self.handshakeCompleted()
        if self._closing is not None and self._closing.active():
            self._closing.cancel()
        self._is_gone = True
        if self._response.done:
            return
        if not isinstance(reason.value, ConnectionDone):
            why = problem_of_tls(reason.value) or "the upstream reset the connection"
            self._broken(Failure(ResponseError(why)))
            return
        try:
            self._response.close()
        except ResponseError:
            self._broken(Failure())
        else:
            self._end(None)

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
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Read on."""
        self._silence.go_on()
        self.transport.resumeProducing()

    def _close(self) -> None:
        self._silence.stop()
        self.transport.loseConnection()
        if self._is_gone:
            return
        # It may have answered without reading all of it; and TLS waits for an answer to its end.
        if len(self._request[1]) > 1 << 16 or ISSLTransport.providedBy(self.transport):
            self._closing = self._clock.callLater(_FLUSH_SECONDS, self.transport.abortConnection)

    def _give_up(self, error: Exception) -> None:
        self._broken(Failure(error))
        self.abort()

    def _fail(self, failure: Failure) -> None:
        self.handshakeCompleted()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.errback(failure)

    def _broken(self, failure: Failure) -> None:
        if not self._has_head:
            self._fail(failure)
        else:
            self._end(failure)

    def _end(self, why: Failure | None) -> None:
        """Tell how the body ended. The first word counts."""
        if not self._ended:
            self._ended.append(why)
            self._tell_end(why)

    def _tell_end(self, why: Failure | None) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.end(why)


class _Only(ClientFactory):
    """The factory of the one connection that is already made."""

    noisy = False

    def __init__(self, connection: UpstreamConnection) -> None:
        self._connection = connection

    def buildProtocol(self, addr: object) -> UpstreamConnection:  # noqa: ARG002
        """Return it."""
        return self._connection


class _Gathering:
    """Keeps a body up to ``most`` bytes.

    ``done`` fires with whether that is all of it. It errbacks with the upstream's reason if it
    broke off. Cancelling it closes the upstream.
    """

    def __init__(self, response: UpstreamConnection, most: int) -> None:
        self.done: Deferred[bool] = Deferred(lambda _: response.abort())
        self.pieces: list[bytes] = []
        self._left = most
        response.deliver(self)

    def take(self, data: bytes) -> None:
        """Keep a piece."""
        self.pieces.append(data)
        self._left -= len(data)
        if self._left < 0 and not self.done.called:
            self.done.callback(False)

    def end(self, why: Failure | None) -> None:
        """Take note that the body has ended, wholly or not."""
        if not self.done.called:
            self.done.callback(True) if why is None else self.done.errback(why)


async def collect(response: UpstreamConnection, most: int) -> bytes:
    """Return the body of ``response``; raises what broke it off, ResponseError if it is too long.

    ``most``: bytes. Cancelled, it closes the upstream.
    """
    gathering = _Gathering(response, most)
    if not await gathering.done:
        response.abort()
        raise ResponseError(f"the upstream's answer is over {most} bytes")
    return b"".join(gathering.pieces)


async def peek(response: UpstreamConnection, most: int) -> bytes | None:
    """Return the body of ``response``, None if it is over ``most`` bytes or breaks off.

    It can be delivered afterwards all the same. Cancelled, it closes the upstream.
    """
    gathering = _Gathering(response, most)
    try:
        whole = await gathering.done
    except CancelledError:
        raise
    except Exception:  # whoever it is delivered to next is told
        whole = False
    else:
        if not whole:
            response.pauseProducing()
    response.take_back(gathering.pieces)
    return b"".join(gathering.pieces) if whole else None
