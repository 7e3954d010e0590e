"""The downstream side: one connection of a client, with our limits, deadlines and access rules.

twisted.web's own channel writes bodies of 100 kB and all chunked ones to files on disk, and its
limits do not suit agents. So this is our own protocol beneath the same Site and Resource.
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
from cacheproxy.core.privacy.access import Door
from cacheproxy.core.privacy.origins import NOT_SHARED
from cacheproxy.proxy.downstream.bodies import LARGE
from cacheproxy.proxy.downstream.incoming import NOTHING, Incoming
from cacheproxy.proxy.downstream.limits import Limits, SiteState, opened
from cacheproxy.proxy.downstream.request import ProxyRequest, refusal
from cacheproxy.proxy.downstream.waiting import Phase, Wait
from cacheproxy.proxy.transport import eager

_log = Logger()
_READ_SIZE = 120 << 10
"""Bytes that one read takes at most. Twisted's own 64 KiB make twice as many reads of a long
conversation's body. From 128 KiB on, glibc takes new pages from the kernel for each read: 500 KB
took 410 us in a bare loop by 1 MiB, 100 by 120 KiB. An idle connection keeps none of it."""
_QUEUE_SIZE = 64 << 10
"""Bytes of an answer that wait in our memory for a client that does not read."""
_AT_A_TIME = 16
"""Pipelined requests that are answered in one turn of the reactor, if they are answered at once."""
_LINGER_SECONDS = 2.0
"""How long a refused client may go on sending: closing at once would reset its connection
before it has read the answer (RFC 9112, section 9.6)."""
_UNREAD_SECONDS = 600.0
"""How long a client may take to read the end of an answer: what our buffer and the kernel's hold,
a few hundred kilobytes, since the rest waits at the upstream."""

_NOWHERE = Door()
_OURS = (Phase.ANSWER, Phase.ROOM)
"""What a client waits for, too: what it sends meanwhile is read ahead."""


@implementer(IPushProducer)
class ProxyChannel(Protocol):
    """One downstream connection. Refusals are answered in JSON, then the connection closes.

    To its transport it is the producer of all answers: while a client does not read, whoever
    writes the running answer is paused, and no further request is read.
    """

    transport: Any  # ITCPTransport, IPushProducer and IConsumer

    def __init__(self, site: SiteState, limits: Limits) -> None:
        self.site = site
        self.limits = limits
        self.request: ProxyRequest | None = None
        self.persistent = True
        self.is_aborted = False
        self.producer: IPushProducer | None = None
        self.secure = False
        self.peer = ""  #: see ``Connection``
        self._door = _NOWHERE
        self._is_plain = False
        self._wait = Wait(site.reactor, self._expired)
        self._incoming = Incoming(site, limits)
        self.was_used = False
        self._reading = False
        self._full = False

    # What the transport tells.

    def connectionMade(self) -> None:
        """Begin to wait for a request."""
        transport = self.transport
        self._is_plain = isinstance(transport, Connection)
        self.secure = not self._is_plain and ISSLTransport.providedBy(transport)
        self._door, self.peer = opened(transport, secure=self.secure)
        transport.registerProducer(self, True)
        if self._is_plain:
            transport.bufferSize = _READ_SIZE
        self._wait.set(self.limits.idle)
        self.site.channels.add(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Leave nothing behind; tell whoever writes the answer."""
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
        """Read requests; drop what a refused client sends on."""
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
        """The client does not read."""
        self._full = True
        if self.producer is not None:
            self.producer.pauseProducing()
        elif self._wait.phase is not Phase.ANSWER:  # there, it may leave, which only reading tells
            self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """It does again."""
        self._full = False
        if self.producer is not None:
            self.producer.resumeProducing()
        elif self._wait.phase is not Phase.ANSWER:
            self.transport.resumeProducing()
            self._next()

    def stopProducing(self) -> None:
        """The connection is lost."""
        if self.producer is not None:
            self.producer.stopProducing()

    # What a request tells.

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
        """Close when all that was written has been sent."""
        self._wait.phase = Phase.CLOSING
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def abort(self) -> None:
        """Close at once, with a reset."""
        self._wait.phase = Phase.CLOSING
        self.is_aborted = True
        self.transport.abortConnection()

    def make_room(self, size: int) -> Deferred[None] | None:
        """Have room for the request's body once it is unpacked: see ``Incoming``."""
        return self._incoming.make_room(size)

    @property
    def is_ending(self) -> bool:
        """Whether it closes behind the answer that is under way."""
        return self.site.closing or not self.persistent

    # What the site tells.

    @property
    def requests(self) -> tuple[ProxyRequest, ...]:
        """The request that is being answered, if there is one."""
        return () if self.request is None else (self.request,)

    def adopt(self, limits: Limits) -> None:
        """Use ``limits`` from the next request on."""
        if self._wait.phase is Phase.IDLE:
            self.limits = self._incoming.reader.limits = limits

    def close_if_idle(self) -> None:
        """Close, unless a request is under way; one that is not read yet is refused."""
        if self._wait.phase is Phase.IDLE:
            self._leave()
        elif self._wait.phase in (Phase.HEAD, Phase.ROOM):
            self.transport.resumeProducing()  # it lingers, see below
            self._refuse(503, "the proxy is shutting down")

    # Reading.

    def _next(self) -> None:
        """Read what has come behind the last request, unless something is in the way."""
        if self._reading or self._full or self._incoming.later is not None:
            return
        if self._wait.phase in _OURS or self._wait.phase is Phase.CLOSING:
            return
        if self._incoming.take_ahead():
            self._read()

    def _read(self) -> None:
        """Read, and have answered, as many requests as there are: not too many in one turn."""
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

        What can be refused for its head is: before 100 Continue, and any of the body.
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
            if head.length is not None and head.length > self.limits.body:
                raise RequestError.too_large(self.limits)
            self.persistent = head.persistent
            if site.access.token:
                head = site.without_token(head)
            large = head.length if head.length is not None and head.length > LARGE else 0
            if large and not incoming.may_be(large, self._has_room):
                return self._wait_for_room(head)
            if head.values(b"expect"):
                self._go_ahead(head)
        body = reader.read_body()
        if body is None:
            if incoming.head is None:
                incoming.head = head
                self._wait.begin_body(self.limits.idle)
            # Nobody knows how large a chunked one becomes.
            if head.length is None and not incoming.may_be(reader.size, self._has_room):
                self._wait_for_room(head)
            return False
        incoming.head = None
        self._answer(head, body)
        return self._wait.phase is Phase.IDLE

    def _go_ahead(self, head: RequestHead) -> None:
        """Have the client send the body, if it waits for a word."""
        if head.expects_continue:
            eager.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _wait_for_room(self, head: RequestHead) -> Literal[False]:
        """Read nothing of a large body, or no more of it, while there are too many."""
        self._incoming.head = head
        self._wait.phase, self._wait.moment = Phase.ROOM, None
        _log.info("a large request body waits for others to end (--bodies-in-flight)")
        return False

    def _has_room(self) -> None:
        """Read on: not at once, since the request of another connection ends just now."""
        head = self._incoming.head
        assert head is not None, "it waits for the room of its body"
        self._wait.begin_body(self.limits.idle)
        if not self._incoming.reader.size:
            self._go_ahead(head)
        if self._incoming.is_much and not self._full:
            self.transport.resumeProducing()
        self._incoming.later = self.site.reactor.callLater(0, self._read_on)

    def _answer(self, head: RequestHead, body: bytes) -> None:
        """Have the site's resource answer. The upstream may take its time."""
        self._wait.phase, self.was_used = Phase.ANSWER, True
        self._wait.moment = None
        if self._is_plain:  # to Twisted's transports, what is read and what waits are one number
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
        if self.secure:  # says so, and goes on reading until the client has said so, too
            self.transport.loseConnection()
        else:
            self.transport.loseWriteConnection()
        self._wait.begin(Phase.CLOSING, _LINGER_SECONDS)

    def _leave(self) -> None:
        """Close once the client has read what it still has to (twisted#12498)."""
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
