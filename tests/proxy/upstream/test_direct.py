"""Connections without endpoints: real sockets on a reactor of their own."""

import contextlib
import errno
import resource
import socket
import threading

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import (
    ConnectBindError,
    ConnectingCancelledError,
    ConnectionDone,
    ConnectionLost,
)
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.internet.protocol import ClientFactory, Protocol
from twisted.python.failure import Failure

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
def run(epoll):
    """Turn the reactor until a Deferred has fired; return its result or raise its failure."""

    def run(deferred):
        found = []
        deferred.addBoth(found.append)
        end = epoll.seconds() + 10
        while not found:
            assert epoll.seconds() < end, "nothing came"
            epoll.iterate(0.02)
        if isinstance(found[0], Failure):
            found[0].raiseException()
        return found[0]

    return run


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def connect(epoll):
    def connect(server, protocol=None, timeout=5.0):
        host, port = server.getsockname()[:2]
        return DirectEndpoint(epoll, host, port, timeout).connect(Once(protocol or Kept()))

    return connect


@pytest.fixture
def ends(run, connect, listener):
    """A protocol that is connected, and the socket at its other end."""
    protocol = Kept()
    run(connect(listener, protocol))
    with listener.accept()[0] as there:
        there.settimeout(5)
        yield protocol, there


def test_on_loopback_the_connection_is_there_at_once(connect, listener):
    found = []
    connect(listener).addCallback(found.append)
    assert found[0].transport.getPeer().port == listener.getsockname()[1]
    assert found[0].transport.getHost().host == "127.0.0.1"


def test_bytes_go_both_ways_and_a_large_write_arrives_whole(run, ends):
    protocol, there = ends
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
        run(protocol.over)
    reading.join(5)
    assert bytes(got) == data


def test_with_nothing_left_to_write_it_closes_at_once(ends):
    protocol, there = ends
    protocol.transport.loseConnection()
    assert protocol.over.called
    assert there.recv(1) == b""


def test_closed_while_it_reads_it_reads_no_more(epoll, run, ends):
    protocol, there = ends
    seen = []
    protocol.dataReceived = lambda data: (seen.append(data), protocol.transport.loseConnection())
    there.sendall(b"1")
    with pytest.raises(ConnectionDone):
        run(protocol.over)
    epoll.iterate(0.01)
    assert seen == [b"1"]


def test_a_reset_is_no_clean_end(run, ends):
    protocol, there = ends
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    there.close()
    with pytest.raises(ConnectionLost):
        run(protocol.over)


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


@pytest.mark.parametrize("error", [Refused, ConnectingCancelledError, ConnectTimeout])
def test_one_that_does_not_come_about_leaves_nothing_behind(epoll, run, connect, full, error):
    attempt = connect(full, timeout=0.2 if error is ConnectTimeout else 30.0)
    if error is Refused:
        full.close()  # the system asks again
    elif error is ConnectingCancelledError:
        attempt.cancel()
    with pytest.raises(error):
        run(attempt)
    assert not epoll.getWriters()
    assert not epoll.getDelayedCalls()


def test_one_that_takes_its_time_comes_about(epoll, run, connect, full):
    attempt = connect(full)
    assert not attempt.called
    accepted = [full.accept()[0] for _ in range(2)]
    assert isinstance(run(attempt), Kept)
    assert not epoll.getDelayedCalls()
    for each in accepted:
        each.close()


def test_out_of_descriptors(epoll, run, connect, listener):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(listener.fileno(), epoll._poller.fileno()) + 8
    with contextlib.ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with contextlib.suppress(OSError):
            while True:
                held.enter_context(socket.socket())
        attempt = connect(listener)
    with pytest.raises(ConnectBindError) as found:
        run(attempt)
    assert found.value.osError == errno.EMFILE


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6(run, connect):
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no ::1 here")
    with server:
        assert run(connect(server)).transport.getPeer().host == "::1"
