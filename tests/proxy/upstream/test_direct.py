"""Connections without endpoints: real sockets on a reactor of their own."""

import contextlib
import errno
import resource
import socket
import threading

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import (
    ConnectBindError,
    ConnectingCancelledError,
    ConnectionDone,
    ConnectionLost,
)
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.internet.protocol import ClientFactory, Protocol

from cacheproxy.proxy.upstream.endpoints import DirectEndpoint


class Kept(Protocol):
    """Keeps what comes; ``over`` fires with why the connection ended."""

    def __init__(self):
        self.data = b""
        self.over = Deferred()

    def dataReceived(self, data):
        self.data += data

    def connectionLost(self, reason):
        self.over.callback(reason)


class Once(ClientFactory):
    def __init__(self, protocol):
        self._protocol = protocol

    def buildProtocol(self, addr):
        return self._protocol


@pytest.fixture
def reactor():
    reactor = EPollReactor()
    reactor.startRunning(installSignalHandlers=False)
    yield reactor
    for descriptor in reactor.removeAll():
        if hasattr(descriptor, "socket"):
            descriptor.socket.close()
    reactor._poller.close()


def run(reactor, deferred, seconds=5.0):
    """Turn the reactor until ``deferred`` has fired; return its result or raise its failure."""
    found = []
    deferred.addBoth(found.append)
    end = reactor.seconds() + seconds
    while not found:
        assert reactor.seconds() < end, "nothing came"
        reactor.iterate(0.02)
    if hasattr(found[0], "raiseException"):
        found[0].raiseException()
    return found[0]


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connect(reactor, server, protocol, timeout=5.0):
    host, port = server.getsockname()[:2]
    return DirectEndpoint(reactor, host, port, timeout).connect(Once(protocol))


@pytest.fixture
def met(reactor, listener):
    """Connect a protocol; return the socket at its other end."""
    with contextlib.ExitStack() as stack:

        def met(protocol):
            run(reactor, connect(reactor, listener, protocol))
            return stack.enter_context(listener.accept()[0])

        yield met


def test_on_loopback_the_connection_is_there_at_once(reactor, listener):
    found = []
    connect(reactor, listener, Kept()).addCallback(found.append)
    assert len(found) == 1
    assert found[0].transport.getPeer().port == listener.getsockname()[1]
    assert found[0].transport.getHost().host == "127.0.0.1"


def test_bytes_go_both_ways_and_a_large_write_arrives_whole(reactor, met):
    there = met(protocol := Kept())
    data = bytes(range(256)) * 40_000
    protocol.transport.write(data)
    protocol.transport.loseConnection()
    got = bytearray()

    def read():
        while piece := there.recv(1 << 16):
            got.extend(piece)
        there.close()

    reading = threading.Thread(target=read)
    reading.start()
    with pytest.raises(ConnectionDone):
        run(reactor, protocol.over)
    reading.join(5)
    assert bytes(got) == data


def test_what_the_other_end_says_comes_before_its_end(reactor, met):
    there = met(protocol := Kept())
    there.sendall(b"hello")
    there.close()
    with pytest.raises(ConnectionDone):
        run(reactor, protocol.over)
    assert protocol.data == b"hello"


def test_with_nothing_left_to_write_it_closes_at_once(reactor, met):
    there = met(protocol := Kept())
    protocol.transport.loseConnection()
    assert protocol.over.called
    there.settimeout(5)
    assert there.recv(1) == b""


def test_closed_while_it_reads_it_reads_no_more(reactor, met):
    class Hasty(Kept):
        def dataReceived(self, data):
            super().dataReceived(data)
            self.transport.loseConnection()

    there = met(protocol := Hasty())
    there.sendall(b"1")
    with pytest.raises(ConnectionDone):
        run(reactor, protocol.over)
    assert protocol.data == b"1"
    reactor.iterate(0.01)


def test_a_reset_is_no_clean_end(reactor, met):
    there = met(protocol := Kept())
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    there.close()
    with pytest.raises(ConnectionLost):
        run(reactor, protocol.over)


def test_nobody_listens(reactor, listener):
    address = listener.getsockname()
    listener.close()
    endpoint = DirectEndpoint(reactor, *address, 5.0)
    with pytest.raises(Refused):
        run(reactor, endpoint.connect(Once(Kept())))


@pytest.fixture
def full():
    """A listener whose queue is full: further connections neither come about nor fail."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = [socket.socket() for _ in range(8)]
        for each in waiting:
            each.setblocking(False)
            assert each.connect_ex(server.getsockname()) in (0, errno.EINPROGRESS)
        yield server
        for each in waiting:
            each.close()


def test_an_answer_that_does_not_come_in_time(reactor, full):
    with pytest.raises(ConnectTimeout):
        run(reactor, connect(reactor, full, Kept(), timeout=0.2))


def test_a_server_that_ends_while_it_is_being_connected_to(reactor, full):
    """It is refused when the system asks again: once, with nothing left behind."""
    attempt = connect(reactor, full, Kept(), timeout=30.0)
    full.close()
    with pytest.raises(Refused):
        run(reactor, attempt, 10)
    assert not reactor.getWriters()
    assert not reactor.getDelayedCalls()


def test_an_attempt_can_be_cancelled(reactor, full):
    attempt = connect(reactor, full, Kept())
    attempt.cancel()
    with pytest.raises(ConnectingCancelledError):
        run(reactor, attempt)
    assert not reactor.getWriters()
    assert not reactor.getDelayedCalls()


def test_a_connection_that_takes_its_time_comes_about(reactor, full):
    attempt = connect(reactor, full, Kept())
    assert not attempt.called
    accepted = [full.accept()[0] for _ in range(2)]
    assert isinstance(run(reactor, attempt, 10), Kept)
    assert not reactor.getDelayedCalls()
    for each in accepted:
        each.close()


def test_out_of_descriptors(reactor, listener):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(listener.fileno(), reactor._poller.fileno()) + 8
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    try:
        with contextlib.suppress(OSError):
            while len(held) < 100:
                held.append(socket.socket())
        assert len(held) < 100
        attempt = connect(reactor, listener, Kept())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in held:
            each.close()
    with pytest.raises(ConnectBindError) as found:
        run(reactor, attempt)
    assert found.value.osError == errno.EMFILE


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6(reactor):
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no ::1 here")
    with server:
        protocol = run(reactor, connect(reactor, server, Kept()))
        assert protocol.transport.getPeer().host == "::1"
