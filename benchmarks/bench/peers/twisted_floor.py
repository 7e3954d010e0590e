"""Two Twisted protocols and one regex: what is left when everything else is left out.

No treq, no Site, no JSON, no record, no limit, no error for anybody: the floor of what a proxy on
Twisted can cost. The answer passes as it comes, framing and all; the upstream closes behind it.
Run: twisted_floor.py PORT UPSTREAM
"""

import re
import sys

from twisted.internet import epollreactor

epollreactor.install()

from twisted.internet import reactor  # noqa: E402
from twisted.internet.protocol import ClientFactory, Factory, Protocol  # noqa: E402

BILLING = re.compile(rb'x-anthropic-billing-header:[^"]*?cch=[0-9a-f]+;')
CONSTANT = b"x-anthropic-billing-header: cc_version=0; cc_entrypoint=cli; cch=00000;"
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
CONNECTION = re.compile(rb"(?i)\r\n(?:connection|content-length):[^\r\n]*")
READ_SIZE = 1 << 20


class Upstream(Protocol):
    """Sends one request; passes the answer down."""

    def __init__(self, down: "Downstream", request: bytes) -> None:
        self.down = down
        self.request = request
        self.head = b""

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        self.transport.write(self.request)

    def dataReceived(self, data: bytes) -> None:
        if self.head is not None:
            data = self.head + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.head = data
                return
            self.head = None
            data = re.sub(rb"(?i)\r\nconnection:[^\r\n]*", b"", data[:end]) + data[end:]
        self.down.transport.write(data)

    def connectionLost(self, reason: object) -> None:  # noqa: ARG002
        self.down.answered()


class Connecting(ClientFactory):
    noisy = False

    def __init__(self, protocol: Upstream) -> None:
        self.protocol = protocol

    def buildProtocol(self, addr: object) -> Upstream:  # noqa: ARG002
        return self.protocol

    def clientConnectionFailed(self, *_: object) -> None:  # noqa: N802 - Twisted's
        self.protocol.down.transport.abortConnection()


class Downstream(Protocol):
    """Reads requests with a Content-Length, one behind the other."""

    def __init__(self) -> None:
        self.buffer = b""
        self.needed = 0
        self.busy = False

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        self.transport.bufferSize = READ_SIZE

    def dataReceived(self, data: bytes) -> None:
        self.buffer += data
        if not self.busy and len(self.buffer) >= self.needed:
            self.read()

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
        framing = b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
        protocol = Upstream(self, head + framing + body)
        reactor.connectTCP("127.0.0.1", int(sys.argv[2]), Connecting(protocol))

    def answered(self) -> None:
        self.busy = False
        if self.buffer:
            self.read()


if __name__ == "__main__":
    factory = Factory.forProtocol(Downstream)
    factory.noisy = False
    reactor.listenTCP(int(sys.argv[1]), factory, backlog=1024, interface="127.0.0.1")
    reactor.run()
