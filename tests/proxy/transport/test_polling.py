"""An epoll reactor without log contexts does what it did with them."""

import socket
import time

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.selectreactor import SelectReactor

from cacheproxy.proxy.transport.polling import NAMES, keep_time, poll_plainly
from tests.logs import looking


class Echo(Protocol):
    def dataReceived(self, data):
        if data == b"fail":
            raise ValueError("on purpose")
        self.transport.write(data)


class Failing(Echo):
    def connectionLost(self, reason):
        raise ValueError("at the end")


@pytest.fixture
def reactor():
    reactor = EPollReactor()
    poll_plainly(reactor)
    reactor.startRunning(installSignalHandlers=False)
    yield reactor
    for descriptor in reactor.removeAll():
        if hasattr(descriptor, "socket"):
            descriptor.socket.close()
    reactor._poller.close()


@pytest.fixture
def failures():
    found = []

    def see(event):
        failure = event.get("log_failure") or event.get("failure")
        if failure is not None:
            found.append(failure.value)

    with looking(see):
        yield found


def talk(reactor, protocol, *sent):
    """What comes back for each of ``sent``, over one connection."""
    port = reactor.listenTCP(0, Factory.forProtocol(protocol), interface="127.0.0.1")
    found = []
    with socket.create_connection(("127.0.0.1", port.getHost().port)) as client:
        client.setblocking(False)
        for data in sent:
            client.send(data)
            for _ in range(20):
                reactor.iterate(0.01)
            try:
                found.append(client.recv(100))
            except BlockingIOError:
                found.append(None)
    for _ in range(5):
        reactor.iterate(0.01)
    return found


def test_bytes_go_both_ways(reactor, failures):
    assert talk(reactor, Echo, b"one", b"two") == [b"one", b"two"]
    assert not failures


def test_one_that_fails_is_logged_and_closed(reactor, failures):
    assert talk(reactor, Echo, b"one", b"fail") == [b"one", b""]
    assert [str(one) for one in failures] == ["on purpose"]
    assert talk(reactor, Echo, b"on") == [b"on"]


def test_so_is_one_that_fails_at_its_end(reactor, failures):
    assert talk(reactor, Failing, b"one") == [b"one"]
    assert "at the end" in [str(one) for one in failures]
    assert talk(reactor, Echo, b"on") == [b"on"]


def test_another_reactor_stays_as_it_is():
    reactor = SelectReactor()
    poll_plainly(reactor)
    assert "doIteration" not in vars(reactor)


def test_the_names_it_uses_are_there(reactor):
    """It fails first when Twisted renames what is not promised."""
    assert [name for name in NAMES if not hasattr(reactor, name)] == []


def test_it_counts_by_the_clock_that_only_goes_forward():
    reactor = EPollReactor()
    keep_time(reactor)
    before = time.monotonic()
    timer = reactor.callLater(0, lambda: None)
    assert before <= timer.getTime() <= time.monotonic()
    timer.cancel()
    reactor._poller.close()
