"""The downstream side: twisted.web's channel with our limits, and bodies kept in memory.

What Twisted 26.10 does otherwise: bodies of 100 kB and all chunked ones go to a temporary file
on disk, bodies have no limit, headers end at 16 KiB with a bare 400.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure
from twisted.web.http import RESPONSES, HTTPChannel
from twisted.web.resource import IResource
from twisted.web.server import NOT_DONE_YET, Request, Site

from cacheproxy.proxy.errors import error_body

if TYPE_CHECKING:
    from twisted.internet.interfaces import ITCPTransport

_LINGER_SECONDS = 2.0
"""How long a refused client may go on sending: closing at once would reset its connection
before it has read the answer (RFC 9112, section 9.6)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may send. Bytes, except ``headers`` (a count) and ``idle`` (seconds)."""

    body: int = 64 << 20
    head: int = 64 << 10
    target: int = 32 << 10
    headers: int = 1000
    idle: float = 75.0


class ProxyRequest(Request):
    """A request whose body is bytes in memory, and whose target is left as it came."""

    defaultContentType = None
    channel: ProxyChannel

    def __init__(self, channel: ProxyChannel, *arguments: Any, **keywords: Any) -> None:
        super().__init__(channel, *arguments, **keywords)
        self.body = b""
        self._chunks: list[bytes] = []
        self._size = 0

    def gotLength(self, length: int | None) -> None:
        """Keep no file: chunks are joined once, when the last has come."""

    def handleContentChunk(self, data: bytes) -> None:
        """Keep a chunk of the body; refuse the request when there are too many (chunked)."""
        self._size += len(data)
        if self._size > self.channel.limits.body:
            self._chunks.clear()
            self.channel.refuse_body()
        else:
            self._chunks.append(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Take the whole request: no form parsing, no query parsing."""
        self.method, self.uri, self.clientproto = command, path, version
        self.path = path.partition(b"?")[0]
        self.args = {}
        self.body = b"".join(self._chunks)
        self._chunks.clear()
        self.process()

    def process(self) -> None:
        """Hand the request to the site's resource, without Server, Date or Content-Type added."""
        self.site = self.channel.site
        self.prepath, self.postpath = [], []
        try:
            body = self.site.resource.render(self)
        except Exception:
            self._log.failure("the resource failed")
            body = self.answer(500, "an internal error; the log says more")
        if body is not NOT_DONE_YET:
            self.write(body)
            self.finish()

    def answer(self, status: int, message: str) -> bytes:
        """Set status and headers for an error of our own; return its body, in the dialect."""
        body = error_body(self.path.decode("latin-1"), status, message)
        self.setResponseCode(status)
        self.setHeader(b"Content-Type", b"application/json")
        self.setHeader(b"Content-Length", b"%d" % len(body))
        return body


class ProxyChannel(HTTPChannel):
    """One downstream connection. Refusals are answered in JSON, then the connection closes."""

    # Pipelined bytes behind a running request are read up to here; beyond it Twisted pauses the
    # transport, and a client that leaves goes unnoticed until the answer is written.
    _optimisticEagerReadSize = 1 << 20
    maxHeaders = 1 << 30  # counted by ourselves, to answer 431
    totalHeadersSize = 1 << 30

    limits: Limits
    site: Any
    _refused = False
    _head_size = 0
    _head_lines = 0
    _linger: IDelayedCall | None = None
    _target = b""

    def lineReceived(self, line: bytes) -> None:
        """Count the head's bytes and lines before Twisted parses them."""
        if self._refused:
            return
        if not self._head_lines and line:
            self._target = line.split(b" ", 2)[1] if line.count(b" ") >= 2 else b""
        self._head_lines += 1 if line else 0
        self._head_size += len(line)
        if len(self._target) > self.limits.target:
            self._refuse(414, "the request target is longer than the limit")
        elif self._head_size > self.limits.head + self.limits.target or (
            self._head_size - len(self._target) > self.limits.head
        ):
            self._refuse(431, f"the headers are larger than {self.limits.head} bytes")
        elif self._head_lines > self.limits.headers + 1:
            self._refuse(431, f"there are more than {self.limits.headers} headers")
        else:
            super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        """Answer where LineReceiver would just close."""
        if not self._head_lines:
            self._target = line.split(b" ", 2)[1][:4096] if b" " in line else b""
            self._refuse(414, "the request line is longer than the limit")
        else:
            self._refuse(431, f"the headers are larger than {self.limits.head} bytes")

    def headerReceived(self, line: bytes) -> bool:
        """Refuse a Content-Length that int() would choke on (more than 4300 digits)."""
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and len(value) > 32:
            self._refuse(400, "the Content-Length makes no sense")
            return False
        return bool(super().headerReceived(line))

    def allHeadersReceived(self) -> None:
        """Refuse a body that is announced as too large before saying 100 Continue."""
        self._head_size = self._head_lines = 0
        if self._refused:
            return
        if self.length is not None and self.length > self.limits.body:
            self.refuse_body()
            return
        super().allHeadersReceived()

    def checkPersistence(self, request: Request, version: bytes) -> bool:  # noqa: N802 - Twisted's
        """Whether the connection may serve another request (RFC 9112, section 9.3).

        Twisted finds ``close`` between spaces, in the first Connection header.
        """
        if version != b"HTTP/1.1":
            return False
        values = request.requestHeaders.getRawHeaders(b"connection", [])
        if b"close" not in {token.strip().lower() for v in values for token in v.split(b",")}:
            return True
        request.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        return False

    def allContentReceived(self) -> None:
        """Do not process what has been refused."""
        if not self._refused:
            super().allContentReceived()

    def rawDataReceived(self, data: bytes) -> None:
        """Drop what a refused client goes on sending."""
        if not self._refused:
            super().rawDataReceived(data)

    def dataReceived(self, data: bytes) -> None:
        """Drop what a refused client goes on sending."""
        if not self._refused:
            super().dataReceived(data)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Stop waiting for a refused client to go."""
        if self._linger is not None and self._linger.active():
            self._linger.cancel()
        super().connectionLost(reason)

    def refuse_body(self) -> None:
        """Answer 413 to a body over the limit."""
        self._refuse(413, f"the request body is larger than {self.limits.body >> 20} MiB")

    def _respondToBadRequestAndDisconnect(self) -> None:
        self._refuse(400, "the request is not valid HTTP/1.1")

    def abort(self) -> None:
        """Close at once, with a reset."""
        cast("ITCPTransport", self.transport).abortConnection()

    def _refuse(self, status: int, message: str) -> None:
        if self._refused:
            return
        self._refused = True
        path = self._target.partition(b"?")[0].decode("latin-1")
        body = error_body(path, status, message)
        reason = RESPONSES.get(status, b"Error")
        transport = cast("ITCPTransport", self.transport)
        transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
            b"Connection: close\r\n\r\n%s" % (status, reason, len(body), body)
        )
        self.setTimeout(None)
        transport.loseWriteConnection()
        self._linger = self.site.reactor.callLater(_LINGER_SECONDS, transport.abortConnection)


class ProxySite(Site):
    """The factory of downstream connections: no access log (query strings hold keys)."""

    def __init__(self, resource: IResource, reactor: IReactorTime, limits: Limits) -> None:
        super().__init__(
            resource,
            requestFactory=ProxyRequest,
            parsePOSTFormSubmission=False,
            timeout=limits.idle,
            reactor=reactor,
        )
        self.limits = limits

    protocol = ProxyChannel  # type: ignore[assignment]  # HTTP/2 is not negotiated
    noisy = False

    def buildProtocol(self, addr: Any) -> Any:
        """Return a channel that knows the limits."""
        channel = cast("ProxyChannel", super().buildProtocol(addr))
        channel.limits = self.limits
        channel.MAX_LENGTH = self.limits.head + self.limits.target
        return channel

    def log(self, request: Any) -> None:
        """Write no access log: one line per exchange is an observer's business."""
