"""How long a client may take, and how many may come."""

import contextlib
import json

import pytest
from twisted.internet.task import Clock

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite

from .harness import Client, Proxy, eventually
from .inmemory import Recorder, Transport

START = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"
LENGTH = START + b"Content-Length: 30000\r\n\r\n"
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"
IDLE, HEAD = 10.0, 15.0


class Slow:
    """A client that takes its time; ``status`` is what it was told, None for nothing."""

    def __init__(self, *began):
        self.clock, self.transport, self.recorder = Clock(), Transport(), Recorder(late=False)
        limits = Limits(idle=IDLE, head_seconds=HEAD)
        site = ProxySite(self.recorder, self.clock, limits, Access())
        self.channel = site.buildProtocol(None)
        self.channel.makeConnection(self.transport)
        self.send(*began)

    def send(self, *pieces, pause=0.0):
        """Send one after the other, with pauses; return how many it took until an answer came."""
        for number, piece in enumerate(pieces):
            self.clock.advance(pause)
            if self.transport.value() or self.transport.disconnecting:
                return number
            self.channel.dataReceived(piece)
        self.clock.advance(0)
        return len(pieces)

    @property
    def error(self):
        """The status that it was answered with, and in whose shape."""
        head, _, body = self.transport.value().partition(b"\r\n\r\n")
        return head.split(b" ")[1], json.loads(body)["type"]


@pytest.mark.parametrize("asked", [(), (START + b"Content-Length: 0\r\n\r\n",)], ids=["new", "old"])
def test_a_connection_without_a_request_is_closed(asked):
    """Silently: there is nobody to answer to; after an answer, which came whole, too."""
    slow = Slow(*asked)
    before = slow.transport.value()
    assert len(slow.recorder.arrived) == len(asked)
    slow.clock.advance(IDLE - 0.1)
    assert not slow.transport.disconnecting
    slow.clock.advance(0.1)
    assert slow.transport.disconnecting
    assert slow.transport.value() == before


@pytest.mark.parametrize(
    ("began", "piece", "most"),
    [
        (START, b"X-More: 1\r\n", HEAD),  # headers have one deadline for all
        (LENGTH, b"x", 2 * IDLE),  # a body has to come at a kilobyte a second
        (CHUNKED, b"1\r\nx\r\n", 2 * IDLE),
    ],
    ids=["headers", "a length", "chunks"],
)
def test_a_byte_now_and_then_keeps_no_connection(began, piece, most):
    """408 in the client's dialect, however many come in between; nothing of it goes on."""
    slow = Slow(began)
    sent = slow.send(*[piece] * 100, pause=1.0)
    assert IDLE - 1 <= sent <= most
    assert slow.error == (b"408", "error")
    assert slow.recorder.arrived == []


def test_a_body_that_stops():
    slow = Slow(LENGTH + b"x" * 20_000)
    slow.clock.advance(IDLE)
    assert slow.error == (b"408", "error")
    assert slow.recorder.arrived == []


def test_a_body_that_takes_longer_than_both_limits_but_comes():
    """They are about silence and slowness, not about size."""
    slow = Slow(LENGTH)
    assert slow.send(*[b"x" * 1000] * 30, pause=0.9) == 30
    (arrived,) = slow.recorder.arrived
    assert arrived.body == b"x" * 30_000


def test_the_settings_say_how_long_and_how_many(upstream, tmp_path):
    """The next one gets 503, with a word on when to come again."""
    arguments = ("--idle-timeout", "1", "--head-timeout", "1.5", "--max-connections", "6")

    def asks(proxy):
        return stack.enter_context(Client(proxy.address)).ask(body=b"{}").answer()

    with contextlib.ExitStack() as stack:
        narrow = stack.enter_context(Proxy(tmp_path, *arguments, "--upstream", upstream.url))
        trickling = stack.enter_context(Client(narrow.address))
        trickling.send(START)
        assert [asks(narrow).status for _ in range(5)] == [200] * 5
        answer = asks(narrow)
        assert (answer.status, answer.values(b"retry-after")) == (503, [b"1"])
        with Client(narrow.address) as another:
            health = another.ask("/_cacheproxy/health", method=b"GET").answer()
        assert (health.status, health.values(b"connection")) == (200, [b"close"])
        assert trickling.answer().status == 408
        eventually(lambda: asks(narrow).status == 200)
