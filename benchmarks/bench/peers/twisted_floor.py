"""Two bare Twisted protocols and one regex: what is left when everything else is left out.

No treq, no Site, no JSON, no record, no limit, no error for anybody, no back pressure: the floor
of what a proxy on Twisted can cost. It connects without endpoints, sends at once what the socket
takes, reads up to 1 MiB at a time, and keeps its connection to the upstream for the next request.
cacheproxy does not do the last: a kept connection may be closing as a request goes out on it, and
a request must not be sent twice. The answer passes as it comes, framing and all.
Run: twisted_floor.py PORT UPSTREAM
"""

import re
import socket
import sys

from twisted.internet import epollreactor

epollreactor.install()

from twisted.internet import reactor, tcp  # noqa: E402
from twisted.internet.protocol import Factory, Protocol  # noqa: E402

BILLING = re.compile(rb'x-anthropic-billing-header:[^"]*?cch=[0-9a-f]+;')
CONSTANT = b"x-anthropic-billing-header: cc_version=0; cc_entrypoint=cli; cch=00000;"
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
CONNECTION = re.compile(rb"(?i)\r\n(?:connection|content-length):[^\r\n]*")
READ_SIZE = 1 << 20


def send(transport: tcp.Connection, data: bytes) -> None:
    """Write ``data``: what the socket takes now, at once."""
    if not transport.dataBuffer and not transport._tempDataBuffer:  # noqa: SLF001 - as eager.py
        try:
            sent = transport.socket.send(data)
        except OSError:
            sent = 0
        if sent == len(data):
            return
        data = data[sent:]
    transport.write(data)


def connect(protocol: Protocol) -> None:
    """Connect ``protocol`` to the upstream, without an endpoint, a connector or a factory."""
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport = tcp.Connection(sock, protocol, reactor)
    transport.connected = 1
    transport.bufferSize = READ_SIZE
    protocol.makeConnection(transport)
    transport.startReading()


class Upstream(Protocol):
    """Passes answers down, one after the other."""

    def __init__(self, down: "Downstream") -> None:
        self.down = down
        self.head = b""
        self.left = 0

    def dataReceived(self, data: bytes) -> None:
        if self.left:
            self.left -= len(data)
        elif self.left == 0:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            data, self.head = self.head, b""
            length = LENGTH.search(data, 0, end)
            self.left = end + 4 + int(length[1]) - len(data) if length else -1
        send(self.down.transport, data)
        if self.left < 0 and data.endswith(b"0\r\n\r\n"):  # chunked
            self.left = 0
        if self.left == 0:
            self.down.answered()

    def connectionLost(self, reason: object) -> None:  # noqa: ARG002
        self.down.upstream = None
        self.down.transport.abortConnection()


class Downstream(Protocol):
    """Reads requests with a Content-Length, one behind the other."""

    def __init__(self) -> None:
        self.buffer = b""
        self.needed = 0
        self.busy = False
        self.upstream: Upstream | None = None

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        self.transport.bufferSize = READ_SIZE

    def dataReceived(self, data: bytes) -> None:
        self.buffer += data
        if not self.busy and len(self.buffer) >= self.needed:
            self.read()

    def connectionLost(self, reason: object) -> None:  # noqa: ARG002
        if self.upstream is not None:
            self.upstream.transport.abortConnection()

    def read(self) -> None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = LENGTH.search(self.buffer, 0, end)
        self.needed = end + 4 + (int(length[1]) if length else 0)
        if len(self.buffer) < self.needed:
            return
        body = BILLING.sub(CONSTANT, self.buffer[end + 4 : self.needed], 1)
        head = CONNECTION.sub(b"", self.buffer[:end])
        self.buffer = self.buffer[self.needed :]
        self.needed = 0
        self.busy = True
        if self.upstream is None:
            self.upstream = Upstream(self)
            connect(self.upstream)
        framing = b"\r\nContent-Length: %d\r\n\r\n" % len(body)
        send(self.upstream.transport, head + framing + body)

    def answered(self) -> None:
        self.busy = False
        if self.buffer:
            self.read()


if __name__ == "__main__":
    factory = Factory.forProtocol(Downstream)
    factory.noisy = False
    reactor.listenTCP(int(sys.argv[1]), factory, backlog=1024, interface="127.0.0.1")
    reactor.run()
