"""Whether one of several upstreams takes requests: asked over real sockets, by a clock of ours."""

from __future__ import annotations

import contextlib
import resource
import socket
import time

import pytest
from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import Clock

from cacheproxy.proxy.servers.asker import HEALTHY_EVERY, Asker
from cacheproxy.proxy.servers.poller import Health
from cacheproxy.proxy.upstream.upstream import Upstream, UpstreamURL
from tests.proxy.harness import eventually, free_port, head, sound_upstream, whole


@pytest.fixture(scope="module")
def reactor():
    return SelectReactor()


@pytest.fixture
def server():
    with sound_upstream() as found:
        yield found


class Asked:
    """The health of the upstream at ``url``, whose questions are waited for."""

    def __init__(self, reactor, url):
        self.clock = Clock()
        self._reactor = reactor
        upstream = Upstream(reactor, UpstreamURL.parse(url), connect_timeout=2.0)
        self.health = Health(Asker(self.clock, upstream, time.time), "big")

    def begin(self):
        self.health.start()
        return self.told()

    def told(self):
        """Whether it is up, once the question under way has been answered."""

        def is_answered():
            self._reactor.iterate(0.01)
            return not self.health.is_asking

        eventually(is_answered)
        return self.health.is_up

    def later(self):
        self.clock.advance(HEALTHY_EVERY)
        return self.told()


@pytest.fixture
def ask(reactor):
    """Make the health of the upstream at a URL."""
    found = []

    def ask(url):
        found.append(Asked(reactor, url))
        return found[-1]

    yield ask
    for each in found:
        each.health.stop()


def saying(status):
    return lambda peer, _: peer.send(whole(b"{}", status=b"%d Status" % status))


@pytest.mark.parametrize(
    ("status", "is_up"),
    [
        (200, True),
        (401, True),
        (404, True),
        (500, True),
        (502, False),
        (503, False),
        (504, False),
        (508, False),
        (421, False),
    ],
)
def test_what_an_answer_shows(ask, server, status, is_up):
    """A page that is not there is an answer, too; 421 and 508 are our own."""
    server.reset(saying(status))
    assert ask(server.url).begin() is is_up


def test_nobody_is_there(ask):
    """A refused connection says so at once."""
    assert not ask(f"http://127.0.0.1:{free_port()}").begin()


def test_to_be_out_of_descriptors_shows_nothing(ask, server):
    """It is our own trouble: nobody's prompts are to go to a fallback for that."""
    asked = ask(server.url)
    assert asked.begin()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as held:
        first = held.enter_context(socket.socket())
        resource.setrlimit(resource.RLIMIT_NOFILE, (first.fileno() + 1, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with contextlib.suppress(OSError):
            while True:
                held.enter_context(socket.socket())
        asked.clock.advance(HEALTHY_EVERY)
    assert asked.told()


def test_an_answer_that_breaks_off_shows_nothing(ask, server):
    """It may just be ending, or just have begun."""
    server.reset(lambda peer, _: peer.send(head(b"Content-Length: 5")[:20]))
    asked = ask(server.url)
    assert asked.begin()
    asked.health.set(is_up=False)
    assert not asked.later()


def test_it_is_asked_again_every_few_seconds(ask, server):
    """Down and up again."""
    server.reset(saying(503))
    asked = ask(server.url)
    assert not asked.begin()
    server.reset(saying(200))
    assert asked.later()


def test_one_that_is_slow_stays_what_it_was(ask, server):
    """It is busy: its conversations are not to move for that, but new ones go elsewhere."""
    server.reset(lambda peer, _: peer.wait_closed())
    asked = ask(server.url)
    asked.health.waiting = 1
    asked.health.start()
    assert asked.health.is_asking
    asked.clock.advance(4.0)
    assert asked.told()
    assert not asked.health.is_silent
    asked.clock.advance(1.0)
    asked.clock.advance(4.0)
    assert asked.told()
    assert asked.health.is_silent
    server.reset(saying(200))
    asked.clock.advance(1.0)
    assert asked.told()
    assert not asked.health.is_silent


def test_one_that_is_silent_and_has_no_work_of_ours_hangs(ask, server):
    """After two questions, which is within fifteen seconds."""
    server.reset(lambda peer, _: peer.wait_closed())
    asked = ask(server.url)
    asked.health.start()
    asked.clock.advance(4.0)
    assert asked.told()
    asked.clock.advance(1.0)
    asked.clock.advance(4.0)
    assert not asked.told()
    server.reset(saying(200))
    asked.clock.advance(1.0)
    assert asked.told()


def test_what_a_request_shows_counts_at_once_and_a_doubt_asks(ask, server):
    """Whoever doubts it before it is asked at all has to wait."""
    asked = ask(server.url)
    asked.health.doubt()
    assert not asked.health.is_asking
    assert asked.begin()
    asked.health.set(is_up=False)
    assert not asked.health.is_up
    asked.health.doubt()
    assert asked.told()
