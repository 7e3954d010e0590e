"""The downstream side: twisted.web's channel with our limits, deadlines and access rules.

What Twisted 26.10 does otherwise: bodies of 100 kB and all chunked ones go to a temporary file
on disk, bodies have no limit, headers end at 16 KiB with a bare 400, and each byte restarts the
only timer, so that one header a minute keeps a connection for ever.
"""

from __future__ import annotations

import socket
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.interfaces import ISystemHandle, ITCPTransport
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.server import Request

from cacheproxy.core.access import Refusal
from cacheproxy.proxy.deadline import Deadline
from cacheproxy.proxy.errors import error_body

if TYPE_CHECKING:
    from cacheproxy.proxy.limits import Limits
    from cacheproxy.proxy.site import ProxySite

_log = Logger()
_LINGER_SECONDS = 2.0
"""How long a refused client may go on sending: closing at once would reset its connection
before it has read the answer (RFC 9112, section 9.6)."""
_UNREAD_SECONDS = 600.0
"""How long a client may take to read the end of an answer: what our buffer and the kernel's hold,
a few hundred kilobytes, since the rest waits at the upstream."""
_SLOWEST_BODY = 1024
"""Bytes a second, below which a body on the whole comes too slowly."""
_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Two minutes after a client's machine is gone its connection closes, and frees its slot."""


class _Phase(Enum):
    """What a connection is waiting for."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    ANSWER = auto()
    CLOSING = auto()


class ProxyChannel(HTTPChannel):
    """One downstream connection. Refusals are answered in JSON, then the connection closes."""

    # Pipelined bytes behind a running request are read up to here; beyond it Twisted pauses the
    # transport, and a client that leaves goes unnoticed until the answer is written. Refusing all
    # requests that fit in here takes one turn of the reactor: 0.3 s at this size, 5 s at 1 MiB.
    _optimisticEagerReadSize = 1 << 17
    maxHeaders = 1 << 30  # counted by ourselves, to answer 431
    totalHeadersSize = 1 << 30

    limits: Limits
    site: ProxySite
    _deadline: Deadline
    _phase = _Phase.IDLE
    _refused = False
    _head_size = 0
    _head_lines = 0
    _body_size = 0
    _body_since = 0.0
    _target = b""

    def connectionMade(self) -> None:
        """Begin to wait for a request."""
        super().connectionMade()
        self._deadline = Deadline(self.site.reactor, self._expired)
        self._wait(_Phase.IDLE, self.limits.idle)
        self.site.channels.add(self)
        _notice_dead_peer(self.transport)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Leave nothing behind."""
        self._deadline.stop()
        self.site.channels.discard(self)
        super().connectionLost(reason)

    def dataReceived(self, data: bytes) -> None:
        """Start the head's deadline with its first byte; drop what a refused client sends on."""
        if self._refused:
            return
        if self._phase is _Phase.IDLE:
            self._wait(_Phase.HEAD, self.limits.head_seconds)
        super().dataReceived(data)

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
            start = line[: self.MAX_LENGTH]  # however much of it has come
            self._target = start.split(b" ", 2)[1][:4096] if b" " in start else b""
            self._refuse(414, "the request line is longer than the limit")
        else:
            self._refuse(431, f"the headers are larger than {self.limits.head} bytes")

    def headerReceived(self, line: bytes) -> bool:
        """Refuse framing headers that Twisted lets pass or fails on.

        A Content-Length of more than 4300 digits, which int() refuses, and ``identity``, which is
        no transfer coding (RFC 9112, section 7) and may hide a second opinion on the length.
        """
        name, _, value = line.partition(b":")
        name = name.lower()
        if name == b"content-length" and len(value) > 32:
            self._refuse(400, "the Content-Length makes no sense")
            return False
        if name == b"transfer-encoding" and value.strip(b" \t").lower() != b"chunked":
            self._refuse(400, "the only Transfer-Encoding of a request is chunked")
            return False
        return bool(super().headerReceived(line))

    def allHeadersReceived(self) -> None:
        """Refuse what can be refused before saying 100 Continue, and before any of the body."""
        self._head_size = self._head_lines = 0
        if self._refused:
            return
        refusal = self._refusal()
        if refusal is not None:
            self._refuse(refusal.status, refusal.message)
            return
        if self.length is not None and self.length > self.limits.body:
            self.refuse_body()
            return
        super().allHeadersReceived()
        if self.length != 0:
            self._body_size, self._body_since = 0, self.site.reactor.seconds()
            self._wait(_Phase.BODY, self.limits.idle)

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

    def rawDataReceived(self, data: bytes) -> None:
        """Move the body's deadline; drop what a refused client goes on sending."""
        if self._refused:
            return
        if self._phase is _Phase.BODY:
            self._body_size += len(data)
            spent = self.site.reactor.seconds() - self._body_since
            self._deadline.set(min(self.limits.idle, self._body_seconds() - spent))
        super().rawDataReceived(data)

    def allContentReceived(self) -> None:
        """Process the request, unless it has been refused. The upstream may take its time."""
        if self._refused:
            return
        self._phase = _Phase.ANSWER
        self._deadline.clear()
        super().allContentReceived()

    def writeHeaders(self, version: Any, code: Any, reason: Any, headers: Any) -> None:  # noqa: N802 - Twisted's
        """Say so if this is the connection's last answer."""
        if self.site.draining and self.persistent:
            self.persistent = False
            headers.setRawHeaders(b"Connection", [b"close"])
        super().writeHeaders(version, code, reason, headers)

    def requestDone(self, request: Request) -> None:  # noqa: N802 - Twisted's
        """Wait for the next request, or for the client to read the rest of its answer."""
        if self.site.draining:
            self.persistent = False
        if self.persistent:
            self._wait(_Phase.IDLE, self.limits.idle)
        else:
            self._wait(_Phase.CLOSING, _UNREAD_SECONDS)
        super().requestDone(request)

    def close_if_idle(self) -> None:
        """Close, unless a request is under way; one whose head has begun is refused."""
        if self._phase is _Phase.IDLE:
            self._leave()
        elif self._phase is _Phase.HEAD:
            self._refuse(503, "the proxy is shutting down")

    def abort(self) -> None:
        """Close at once, with a reset."""
        cast("ITCPTransport", self.transport).abortConnection()

    def refuse_body(self) -> None:
        """Answer 413 to a body over the limit."""
        self._refuse(413, f"the request body is larger than {self.limits.body >> 20} MiB")

    def _refusal(self) -> Refusal | None:
        site, headers = self.site, self.requests[-1].requestHeaders
        if site.draining:
            return Refusal(503, "the proxy is shutting down")
        if len(site.channels) > self.limits.connections:
            return Refusal(503, f"there are more than {self.limits.connections} connections")

        def values(name: bytes) -> list[bytes]:
            return list(headers.getRawHeaders(name, []))

        address = getattr(cast("ITCPTransport", self.transport).getHost(), "host", "")
        path = self._path.partition(b"?")[0]
        http10 = self._version == b"HTTP/1.0"
        refusal = site.access.refusal(values, address, path=path, http10=http10)
        if refusal is None and site.access.token:
            for name in site.access.token_headers(values):
                headers.removeHeader(name)
        return refusal

    def _respondToBadRequestAndDisconnect(self) -> None:
        self._refuse(400, "the request is not valid HTTP/1.1")

    def _refuse(self, status: int, message: str) -> None:
        if self._refused:
            return
        self._refused = True
        self.clearLineBuffer()
        _log.warn("refused a request: {status} {message}", status=status, message=message)
        path = self._target.partition(b"?")[0].decode("latin-1")
        body = error_body(path, status, message)
        reason = HTTPStatus(status).phrase.encode()
        more = _MORE.get(status, b"")
        transport = cast("ITCPTransport", self.transport)
        transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
            b"%sConnection: close\r\n\r\n%s" % (status, reason, len(body), more, body)
        )
        transport.loseWriteConnection()
        self._wait(_Phase.CLOSING, _LINGER_SECONDS)

    def _wait(self, phase: _Phase, seconds: float) -> None:
        self._phase = phase
        self._deadline.set(seconds)

    def _body_seconds(self) -> float:
        """How long the body may have taken so far, in all."""
        return self.limits.idle + self._body_size / _SLOWEST_BODY

    def _expired(self) -> None:
        if self._phase is _Phase.HEAD:
            self._refuse(408, f"the headers took longer than {self.limits.head_seconds:g} s")
        elif self._phase is _Phase.BODY:
            self._refuse(408, "the request body came too slowly, or not at all")
        elif self._phase is _Phase.IDLE:
            self._leave()
        else:
            self.abort()

    def _leave(self) -> None:
        """Close once the client has read what it still has to (twisted#12498)."""
        self._wait(_Phase.CLOSING, _UNREAD_SECONDS)
        self.loseConnection()


_MORE = {401: b"WWW-Authenticate: Bearer\r\n", 503: b"Retry-After: 1\r\n"}


def _notice_dead_peer(transport: Any) -> None:
    if not (ITCPTransport.providedBy(transport) and ISystemHandle.providedBy(transport)):
        return
    handle = cast("socket.socket", transport.getHandle())
    if handle.family == getattr(socket, "AF_UNIX", None):  # on the same machine, it is never gone
        return
    transport.setTcpKeepAlive(True)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # macOS calls the first one otherwise
            handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
