"""The downstream side: one connection of a client, with our limits, deadlines and access rules.

twisted.web's own channel writes bodies of 100 kB and all chunked ones to files on disk, and its
limits do not suit agents. So this is our own protocol beneath the same Site and Resource.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IPushProducer, ISSLTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.tcp import Connection
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from cacheproxy.core.conversation.owner import peer_address
from cacheproxy.core.http1.request_head import RequestError, RequestHead
from cacheproxy.core.http1.request_reader import RequestReader
from cacheproxy.core.privacy.access import Door
from cacheproxy.core.privacy.origins import NOT_SHARED
from cacheproxy.proxy.downstream.limits import Limits, SiteState, set_options
from cacheproxy.proxy.downstream.request import ProxyRequest, refusal
from cacheproxy.proxy.transport import eager
from cacheproxy.proxy.transport.deadline import Deadline

_log = Logger()
_READ_AHEAD = 128 << 10
"""Bytes of pipelined requests that are read behind a running one. Beyond it the transport is
paused, and a client that leaves goes unnoticed until the answer is written."""
_READ_SIZE = 120 << 10
"""Bytes that one read takes at most. Twisted's own 64 KiB make twice as many reads of a long
conversation's body. From 128 KiB on, glibc takes new pages from the kernel for each read: 500 KB
took 410 us to be read by 1 MiB, 100 by 120 KiB. An idle connection keeps none of it."""
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
_SLOWEST_BODY = 1024
"""Bytes a second, below which a body on the whole comes too slowly."""


_NOWHERE = Door()
_NOTHING = RequestReader(Limits())
"""It is fed nothing: there is no more to be read."""


class _Phase(Enum):
    """What a connection is waiting for."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    ANSWER = auto()
    CLOSING = auto()


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
        self._deadline = Deadline(site.reactor, self._expired)
        self._reader = RequestReader(limits)
        self._head: RequestHead | None = None
        self._phase = _Phase.IDLE
        self.was_used = False
        self._ahead = bytearray()
        self._reading = False
        self._full = False
        self._later: IDelayedCall | None = None
        self._body_size = 0
        self._body_since = 0.0

    # What the transport tells.

    def connectionMade(self) -> None:
        """Begin to wait for a request."""
        transport = self.transport
        set_options(transport)
        transport.registerProducer(self, True)
        name: Any = None
        peer: Any = None
        if isinstance(transport, Connection):
            self._is_plain = True
            transport.bufferSize = _READ_SIZE
            name, peer = transport.socket.getsockname(), getattr(transport, "client", None)
        else:
            self.secure = ISSLTransport.providedBy(transport)
        if isinstance(name, tuple) and len(name) == 2:  # IPv4; Twisted's way takes five calls
            self._door, self.peer = Door(*name), peer_address(peer[0])
        else:
            host = transport.getHost()
            self._door = Door(getattr(host, "host", ""), getattr(host, "port", 0), self.secure)
            self.peer = peer_address(getattr(transport.getPeer(), "host", None) or "")
        self._deadline.set(self.limits.idle)
        self.site.channels.add(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Leave nothing behind; tell whoever writes the answer."""
        self._phase = _Phase.CLOSING
        if self._reader is not _NOTHING:
            self._drop()
        self._deadline.stop()
        self.site.channels.discard(self)
        self.site.spare.discard(self)
        request, self.request = self.request, None
        if request is not None:
            request.lost(reason)

    def dataReceived(self, data: bytes) -> None:
        """Read requests; drop what a refused client sends on."""
        phase = self._phase
        if phase is _Phase.CLOSING:
            return
        if phase is _Phase.ANSWER or self._reading or self._full or self._later is not None:
            self._ahead += data
            if len(self._ahead) > _READ_AHEAD:
                self.transport.pauseProducing()
            return
        if phase is _Phase.BODY:
            self._body_size += len(data)
            spent = self.site.reactor.seconds() - self._body_since
            most = self.limits.idle + self._body_size / _SLOWEST_BODY  # seconds, so far, in all
            self._deadline.set(min(self.limits.idle, most - spent))
        self._reader.feed(data)
        self._read()

    def pauseProducing(self) -> None:
        """The client does not read."""
        self._full = True
        if self.producer is not None:
            self.producer.pauseProducing()
        elif self._phase is not _Phase.ANSWER:  # there, it may leave, which only reading tells
            self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """It does again."""
        self._full = False
        if self.producer is not None:
            self.producer.resumeProducing()
        elif self._phase is not _Phase.ANSWER:
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
        if self._phase is _Phase.CLOSING:
            return
        if self.site.closing or not self.persistent:
            self._leave()
            return
        if self._is_plain:
            self.transport.bufferSize = _READ_SIZE
        self._wait(_Phase.IDLE, self.limits.idle)
        if len(self._ahead) > _READ_AHEAD and not self._full:
            self.transport.resumeProducing()
        self._next()

    def close(self) -> None:
        """Close when all that was written has been sent."""
        self._phase = _Phase.CLOSING
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def abort(self) -> None:
        """Close at once, with a reset."""
        self._phase = _Phase.CLOSING
        self.is_aborted = True
        self.transport.abortConnection()

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
        if self._phase is _Phase.IDLE:
            self.limits = self._reader.limits = limits

    def close_if_idle(self) -> None:
        """Close, unless a request is under way; one whose head has begun is refused."""
        if self._phase is _Phase.IDLE:
            self._leave()
        elif self._phase is _Phase.HEAD:
            self._refuse(503, "the proxy is shutting down")

    # Reading.

    def _next(self) -> None:
        """Read what has come behind the last request, unless something is in the way."""
        if self._reading or self._full or self._later is not None:
            return
        if self._phase in (_Phase.ANSWER, _Phase.CLOSING):
            return
        if self._take_ahead():
            self._read()

    def _take_ahead(self) -> bool:
        """Return whether there is something to be read."""
        if self._ahead:
            self._reader.feed(bytes(self._ahead))
            self._ahead.clear()
        return self._reader.waiting

    def _read(self) -> None:
        """Read, and have answered, as many requests as there are: not too many in one turn."""
        self._reading = True
        try:
            for _ in range(_AT_A_TIME):
                if not self._read_one() or self._full or not self._take_ahead():
                    return
            self._later = self.site.reactor.callLater(0, self._read_on)
        except RequestError as error:
            self._refuse(error.status, str(error))
        finally:
            self._reading = False

    def _read_on(self) -> None:
        self._later = None
        self._next()

    def _read_one(self) -> bool:
        """Read one request; return whether it was whole, and has been answered already.

        What can be refused for its head is: before 100 Continue, and any of the body.
        """
        reader, head, site = self._reader, self._head, self.site
        if head is None:
            head = reader.read_head()
            if head is None:
                if self._phase is _Phase.IDLE and reader.waiting:
                    self._wait(_Phase.HEAD, self.limits.head_seconds)
                return False
            refused = site.refusal(head, self._door, self)
            if refused is not None:
                self._refuse(refused.status, refused.message)
                return False
            if head.length is not None and head.length > self.limits.body:
                raise RequestError.too_large(self.limits)
            if head.values(b"expect") and head.expects_continue:
                eager.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")
            self.persistent = head.persistent
            if site.access.token:
                head = site.without_token(head)
        body = reader.read_body()
        if body is None:
            if self._head is None:
                self._head = head
                self._body_size, self._body_since = 0, self.site.reactor.seconds()
                self._wait(_Phase.BODY, self.limits.idle)
            return False
        self._head = None
        self._answer(head, body)
        return self._phase is _Phase.IDLE

    def _answer(self, head: RequestHead, body: bytes) -> None:
        """Have the site's resource answer. The upstream may take its time."""
        self._phase, self.was_used = _Phase.ANSWER, True
        self._deadline.moment = None
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
        answer = refusal(self._reader, status, message, self.site.sharing(self._reader.head))
        self._drop()
        self.transport.unregisterProducer()
        self.transport.write(answer)
        if self.secure:  # says so, and goes on reading until the client has said so, too
            self.transport.loseConnection()
        else:
            self.transport.loseWriteConnection()
        self._wait(_Phase.CLOSING, _LINGER_SECONDS)

    def _leave(self) -> None:
        """Close once the client has read what it still has to (twisted#12498)."""
        self._phase = _Phase.CLOSING
        self._drop()
        self.transport.unregisterProducer()
        eager.close(self.transport)
        if self in self.site.channels:
            self._deadline.set(_UNREAD_SECONDS)

    def _drop(self) -> None:
        """Keep nothing of what has come, and read no more of it."""
        self._reader = _NOTHING
        self._head = None
        self._ahead.clear()
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _wait(self, phase: _Phase, seconds: float) -> None:
        self._phase = phase
        self._deadline.set(seconds)

    def _expired(self) -> None:
        if self._phase is _Phase.HEAD:
            self._refuse(408, f"the headers took longer than {self.limits.head_seconds:g} s")
        elif self._phase is _Phase.BODY:
            self._refuse(408, "the request body came too slowly, or not at all")
        elif self._phase is _Phase.IDLE:
            self._leave()
        else:
            self.abort()
