"""Eager writes: real sockets, and no byte lost, doubled or out of order."""

import contextlib
import socket
import tracemalloc

import pytest
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Server
from twisted.python.failure import Failure

from cacheproxy.proxy.transport import eager
from tests.proxy.inmemory import Producer


class Watching:
    """A reactor that only notes who wants to write, and what is to be called later."""

    def __init__(self):
        self.writers = set()
        self.later = []

    def addWriter(self, writer):  # noqa: N802 - Twisted's
        self.writers.add(writer)

    def removeWriter(self, writer):  # noqa: N802 - Twisted's
        self.writers.discard(writer)

    def addReader(self, reader):  # noqa: N802 - Twisted's
        pass

    removeReader = addReader  # noqa: N815 - Twisted's

    def callLater(self, _, function, *arguments):  # noqa: N802 - Twisted's
        self.later.append((function, arguments))


class Pair:
    """A transport of Twisted's over a real connection, and the socket at its other end."""

    def __init__(self):
        ours, self.peer = socket.socketpair()
        self.peer.setblocking(False)
        self.reactor = Watching()
        self.transport = Server(ours, Protocol(), ("", 0), None, 0, self.reactor)

    def write(self, *pieces):
        for piece in pieces:
            eager.write(self.transport, piece)

    def read(self):
        found = b""
        with contextlib.suppress(BlockingIOError):
            while data := self.peer.recv(1 << 20):
                found += data
        return found

    def read_all(self):
        """Let the reactor write what is left, as long as there is some."""
        found = bytearray(self.read())
        while self.transport in self.reactor.writers:
            assert self.transport.doWrite() is None
            found += self.read()
        return found


@pytest.fixture
def pair():
    pair = Pair()
    yield pair
    pair.peer.close()
    if hasattr(pair.transport, "socket"):
        pair.transport.socket.close()


def test_the_rest_waits_in_the_transport_and_stays_in_order(pair):
    """A peer that does not read: its producer is paused, and goes on when it reads."""
    producer = Producer()
    pair.transport.registerProducer(producer, True)
    pieces = [bytes([number]) * 300_000 for number in range(20)]
    pair.write(*pieces)
    assert pair.transport in pair.reactor.writers
    assert producer.told[0] == "pause"
    assert pair.read_all() == b"".join(pieces)
    assert producer.told[-1] == "resume"
    pair.write(b"after")
    assert pair.read() == b"after"


def test_what_is_queued_or_half_written_goes_first(pair):
    pair.transport.write(b"one")
    pair.write(b"two")
    assert pair.read() == b""
    assert pair.read_all() == b"onetwo"
    pair.write(b"x" * 2_000_000)
    pair.transport.doWrite()
    found = pair.read()
    assert pair.transport.dataBuffer
    pair.write(b"end")
    assert found + pair.read_all() == b"x" * 2_000_000 + b"end"


def test_what_the_socket_does_not_take_is_not_copied(pair):
    """Of 20 MB that would hold the reactor for 5 ms, and be done twice."""
    body = bytes(range(250)) * 80_000
    tracemalloc.start()
    pair.write(body)
    found = pair.read_all()
    held = tracemalloc.get_traced_memory()[1] - len(found)
    tracemalloc.stop()
    assert found == body
    assert held < len(body) + 3_000_000  # what the test itself puts together


def test_a_peer_that_is_gone_is_the_reactors_business(pair):
    """The write does not raise, nor does it tell the protocol: the reactor finds the same."""
    pair.peer.close()
    pair.write(b"one", b"two")
    assert pair.transport in pair.reactor.writers
    assert isinstance(pair.transport.doWrite(), ConnectionLost)


@pytest.mark.parametrize("how", ["loseConnection", "loseWriteConnection"])
def test_what_is_written_before_the_end_comes_before_the_end(pair, how):
    """Closing wholly or in one direction; what comes after the end goes nowhere."""
    getattr(pair.transport, how)()
    pair.write(b"one")
    reason = pair.transport.doWrite()
    if reason is not None:
        pair.transport.connectionLost(Failure(reason))
    pair.write(b"two")
    assert pair.read_all() == b"one"


@pytest.mark.parametrize("waits", [False, True])
def test_it_closes_at_once_if_nothing_waits_and_else_behind_it(pair, waits):
    (pair.transport.write if waits else pair.write)(b"one")
    eager.close(pair.transport)
    assert pair.transport.connected == waits
    if waits:
        assert isinstance(pair.transport.doWrite(), ConnectionDone)
    assert pair.read() == b"one"
    assert pair.transport.connected == waits
