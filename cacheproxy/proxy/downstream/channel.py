"""The downstream side: one connection of a client, with limits, deadlines and access rules.

twisted.web's own channel writes bodies of 100 kB and all chunked ones to files on disk, and its
limits do not suit agents. So this protocol replaces it, beneath the same Site and Resource.
"""

from __future__ import annotations

from typing import Any, Literal

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, ISSLTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.tcp import Connection
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from cacheproxy.core.http1.request_head import RequestError, RequestHead
from cacheproxy.core.privacy.origins import NOT_SHARED
from cacheproxy.proxy.downstream.bodies import LARGE
from cacheproxy.proxy.downstream.incoming import NOTHING, Incoming
from cacheproxy.proxy.downstream.limits import Limits, SiteState, addresses
from cacheproxy.proxy.downstream.request import ProxyRequest, refusal
from cacheproxy.proxy.downstream.waiting import Phase, Wait
from cacheproxy.proxy.transport import eager

_log = Logger()
_READ_SIZE = 120 << 10
"""Bytes of one read at most. Twisted's own 64 KiB make twice as many reads of a long
conversation's body. From 128 KiB on, glibc takes new pages from the kernel for each read: 500 KB
took 410 us in a bare loop by 1 MiB, 100 by 120 KiB. An idle connection has no buffer."""
_QUEUE_SIZE = 64 << 10
"""Bytes of an answer that wait in our memory for a client that does not read."""
_AT_A_TIME = 16
"""Pipelined requests at most in one turn of the reactor, of those answered at once."""
_LINGER_SECONDS = 2.0
"""Seconds for which a refused client may go on sending: closing at once would reset its connection
before it has read the answer (RFC 9112, section 9.6)."""
_UNREAD_SECONDS = 600.0
"""Seconds in which a client has to read the end of an answer: the bytes in our buffer and the
kernel's, a few hundred kilobytes, since the rest waits at the upstream."""

_OURS = (Phase.ANSWER, Phase.ROOM)
"""Phases in which the client waits for the proxy: bytes that it sends meanwhile are read ahead."""


@implementer(IPushProducer)
class ProxyChannel(Protocol):
    """One downstream connection. Refusals are answered in JSON, then the connection closes.

    The channel is its transport's producer: while a client does not read, it pauses ``producer``,
    which writes the running answer, and reads no further request.
    """

    transport: Any  # ITCPTransport, IPushProducer and IConsumer
    secure: bool
    peer: str
    """See ``Connection``."""

    def __init__(self, site: SiteState, limits: Limits) -> None:
        self.site = site
        self.limits = limits
        self.request: ProxyRequest | None = None
        self.persistent = True
        self.is_aborted = False
        self.producer: IPushProducer | None = None
        self._wait = Wait(site.reactor, self._expired)
        self._incoming = Incoming(site, limits)
        self.was_used = False
        self._reading = False
        self._full = False

    # Called by the transport.

    def connectionMade(self) -> None:
        """Begin to wait for a request."""
        transport = self.transport
        self._is_plain = isinstance(transport, Connection)
        self.secure = not self._is_plain and ISSLTransport.providedBy(transport)
        self._door, self.peer = addresses(transport, secure=self.secure)
        transport.registerProducer(self, True)
        if self._is_plain:
            transport.bufferSize = _READ_SIZE
        self._wait.set(self.limits.idle)
        self.site.channels.add(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Discard all state; report the loss to the running request."""
        self._wait.phase = Phase.CLOSING
        if self._incoming.reader is not NOTHING:
            self._incoming.drop()
        self._wait.stop()
        self.site.channels.discard(self)
        self.site.spare.discard(self)
        request, self.request = self.request, None
        if request is not None:
            request.lost(reason)

    def dataReceived(self, data: bytes) -> None:
        """Read requests; discard the bytes that a refused client goes on sending."""
        phase = self._wait.phase
        if phase is Phase.CLOSING:
            return
        if phase in _OURS or self._reading or self._full or self._incoming.later is not None:
            self._incoming.ahead += data
            if self._incoming.is_much:
                self.transport.pauseProducing()
            return
        if phase is Phase.BODY:
            self._wait.came(len(data), self.limits.idle)
        self._incoming.reader.feed(data)
        self._read()

    def pauseProducing(self) -> None:
        """Pause the answer's producer: the client does not read."""
        self._full = True
        if self.producer is not None:
            self.producer.pauseProducing()
        elif self._wait.phase is not Phase.ANSWER:  # else reading goes on, to notice if it leaves
            self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Resume the answer's producer: the client reads again."""
        self._full = False
        if self.producer is not None:
            self.producer.resumeProducing()
        elif self._wait.phase is not Phase.ANSWER:
            self.transport.resumeProducing()
            self._next()

    def stopProducing(self) -> None:
        """Stop the answer's producer: the connection is lost."""
        if self.producer is not None:
            self.producer.stopProducing()

    # Called by a request.

    def done(self) -> None:
        """Wait for the next request, or for the client to read the rest of its answer."""
        self.request = self.producer = None
        incoming = self._incoming
        if incoming.place is not None:
            incoming.done()
        if self._wait.phase is Phase.CLOSING:
            return
        if self.site.closing or not self.persistent:
            self._leave()
            return
        if self._is_plain:
            self.transport.bufferSize = _READ_SIZE
        self._wait.begin(Phase.IDLE, self.limits.idle)
        if incoming.ahead and incoming.is_much and not self._full:
            self.transport.resumeProducing()
        self._next()

    def close(self) -> None:
        """Close when all written bytes have been sent."""
        self._wait.phase = Phase.CLOSING
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def abort(self) -> None:
        """Close at once, with a reset."""
        self._wait.phase = Phase.CLOSING
        self.is_aborted = True
        self.transport.abortConnection()

    def make_room(self, size: int) -> Deferred[None] | None:
        """Reserve room for the request's unpacked body: see ``Incoming``."""
        return self._incoming.make_room(size)

    @property
    def is_ending(self) -> bool:
        """Whether the connection closes after the running answer."""
        return self.site.closing or not self.persistent

    # Called by the site.

    @property
    def requests(self) -> tuple[ProxyRequest, ...]:
        """The running request, if there is one."""
        return () if self.request is None else (self.request,)

    def adopt(self, limits: Limits) -> None:
        """Use ``limits`` from the next request on."""
        if self._wait.phase is Phase.IDLE:
            self.limits = self._incoming.reader.limits = limits

    def close_if_idle(self) -> None:
        """Close, unless a request is being read or answered; one in its head is refused."""
        if self._wait.phase is Phase.IDLE:
            self._leave()
        elif self._wait.phase in (Phase.HEAD, Phase.ROOM):
            self.transport.resumeProducing()  # the refusal lingers, see _LINGER_SECONDS
            self._refuse(503, "the proxy is shutting down")

    # Reading.

    def _next(self) -> None:
        """Read the bytes that came ahead, unless the phase or a pause forbids it."""
        if self._reading or self._full or self._incoming.later is not None:
            return
        if self._wait.phase in _OURS or self._wait.phase is Phase.CLOSING:
            return
        if self._incoming.take_ahead():
            self._read()

    def _read(self) -> None:
        """Read and answer the requests that have come, in one turn ``_AT_A_TIME`` at most."""
        self._reading = True
        try:
            for _ in range(_AT_A_TIME):
                if not self._read_one() or self._full or not self._incoming.take_ahead():
                    return
            self._incoming.later = self.site.reactor.callLater(0, self._read_on)
        except RequestError as error:
            self._refuse(error.status, str(error))
        finally:
            self._reading = False

    def _read_on(self) -> None:
        self._incoming.later = None
        self._next()

    def _read_one(self) -> bool:
        """Read one request; return whether it was whole, and has been answered already.

        A refusal for its head comes before 100 Continue and before any of its body is read.
        """
        incoming, site = self._incoming, self.site
        reader, head = incoming.reader, incoming.head
        if head is None:
            head = reader.read_head()
            if head is None:
                if self._wait.phase is Phase.IDLE and reader.waiting:
                    self._wait.begin(Phase.HEAD, self.limits.head_seconds)
                return False
            refused = site.refusal(head, self._door, self)
            if refused is not None:
                self._refuse(refused.status, refused.message)
                return False
            size = head.length or 0
            if size > self.limits.body:
                raise RequestError.too_large(self.limits)
            self.persistent = head.persistent
            if site.access.token:
                head = site.without_token(head)
            if size > LARGE and not incoming.may_be(size, self._has_room):
                return self._wait_for_room(head)
            if head.values(b"expect"):
                self._go_ahead(head)
        body = reader.read_body()
        if body is None:
            if incoming.head is None:
                incoming.head = head
                self._wait.begin_body(self.limits.idle)
            # The size of a chunked body is not known beforehand.
            if head.length is None and not incoming.may_be(reader.size, self._has_room):
                self._wait_for_room(head)
            return False
        incoming.head = None
        self._answer(head, body)
        return self._wait.phase is Phase.IDLE

    def _go_ahead(self, head: RequestHead) -> None:
        """Send 100 Continue, if the client waits for it before it sends the body."""
        if head.expects_continue:
            eager.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _wait_for_room(self, head: RequestHead) -> Literal[False]:
        """Stop reading a large body until there is room for it."""
        self._incoming.head = head
        self._wait.phase, self._wait.moment = Phase.ROOM, None
        _log.info("a large request body waits for others to end (--bodies-in-flight)")
        return False

    def _has_room(self) -> None:
        """Go on with the body, in the next turn: this call is part of another request's end."""
        head = self._incoming.head
        assert head is not None, "a body waits for room"
        self._wait.begin_body(self.limits.idle)
        if not self._incoming.reader.size:
            self._go_ahead(head)
        if self._incoming.is_much and not self._full:
            self.transport.resumeProducing()
        self._incoming.later = self.site.reactor.callLater(0, self._read_on)

    def _answer(self, head: RequestHead, body: bytes) -> None:
        """Let the site's resource answer the request, without a deadline."""
        self._wait.phase, self.was_used = Phase.ANSWER, True
        self._wait.moment = None
        if self._is_plain:  # Twisted has one number for the size of reads and of the write buffer
            self.transport.bufferSize = _QUEUE_SIZE
        sharing = self.site.sharing(head) if self.site.access.origins else NOT_SHARED
        request = self.request = ProxyRequest(self, head, body, sharing)
        try:
            answer = self.site.resource.render(request)
        except Exception:
            _log.failure("the resource failed")
            if request.started:
                self.abort()
                return
            answer = request.refuse(500, "an internal error; see the proxy's log")
        if answer is not NOT_DONE_YET:
            request.write(answer)
            request.finish()

    # Ending.

    def _refuse(self, status: int, message: str) -> None:
        _log.warn("rejected a request ({status}): {message}", status=status, message=message)
        asked = self._incoming.reader
        answer = refusal(asked, status, message, self.site.sharing(asked.head))
        self._incoming.drop()
        self.transport.unregisterProducer()
        self.transport.write(answer)
        if self.secure:  # sends a closing alert, and goes on reading until the client's comes
            self.transport.loseConnection()
        else:
            self.transport.loseWriteConnection()
        self._wait.begin(Phase.CLOSING, _LINGER_SECONDS)

    def _leave(self) -> None:
        """Close once the client has read the bytes already written (twisted#12498)."""
        self._wait.phase = Phase.CLOSING
        self._incoming.drop()
        self.transport.unregisterProducer()
        eager.close(self.transport)
        if self in self.site.channels:
            self._wait.set(_UNREAD_SECONDS)

    def _expired(self) -> None:
        if self._wait.phase is Phase.HEAD:
            self._refuse(408, f"the headers took longer than {self.limits.head_seconds:g} s")
        elif self._wait.phase is Phase.BODY:
            self._refuse(408, "the request body came too slowly, or not at all")
        elif self._wait.phase is Phase.IDLE:
            self._leave()
        else:
            self.abort()
