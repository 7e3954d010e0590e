"""An epoll reactor without log contexts does what it did with them."""

import contextlib
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
def reactor(epoll):
    poll_plainly(epoll)
    return epoll


@pytest.fixture
def failures():
    found = []

    def see(event):
        failure = event.get("log_failure") or event.get("failure")
        if failure is not None:
            found.append(failure.value)

    with looking(see):
        yield found


@pytest.fixture
def talk(reactor):
    """What comes back for each of ``sent``, over one connection; None for nothing."""

    def talk(protocol, *sent):
        port = reactor.listenTCP(0, Factory.forProtocol(protocol), interface="127.0.0.1")
        found = []
        with socket.create_connection(("127.0.0.1", port.getHost().port)) as client:
            client.settimeout(0.001)
            for data in sent:
                client.send(data)
                found.append(None)
                for _ in range(100):
                    reactor.iterate(0.01)
                    with contextlib.suppress(TimeoutError):
                        found[-1] = client.recv(100)
                        break
        for _ in range(5):
            reactor.iterate(0.01)
        return found

    return talk


@pytest.mark.parametrize(
    ("protocol", "sent", "found", "failed"),
    [
        (Echo, [b"one", b"two"], [b"one", b"two"], []),
        (Echo, [b"one", b"fail"], [b"one", b""], ["on purpose"]),
        (Failing, [b"one"], [b"one"], ["at the end"]),
    ],
    ids=["both ways", "one that fails", "one that fails at its end"],
)
def test_bytes_go_both_ways(talk, failures, *, protocol, sent, found, failed):
    """A protocol that fails is logged and closed; others go on."""
    assert talk(protocol, *sent) == found
    assert [str(one) for one in failures] == failed
    assert talk(Echo, b"on") == [b"on"]


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
