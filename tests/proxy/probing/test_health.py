"""Whether one of several upstreams takes requests, by a clock of ours."""

import errno

import pytest
from twisted.internet.error import ConnectBindError, DNSLookupError
from twisted.internet.error import ConnectionRefusedError as Refused

from cacheproxy.proxy.probing.asker import HEALTH_SECONDS, HEALTHY_EVERY, Asker
from cacheproxy.proxy.probing.poller import Health
from tests import transcript
from tests.proxy.harness import head
from tests.proxy.inmemory import Server

OUT_OF_DESCRIPTORS = ConnectBindError(errno.EMFILE)
OUT_OF_DESCRIPTORS.osError = errno.EMFILE


class Asked:
    """The health of a server that says ``answer``, and may be silent for ``silence``."""

    def __init__(self, answer=(200, b"{}"), silence=0):
        self.server = Server(otherwise=answer, silence=silence)
        clock = self.server.clock
        self.health = Health(Asker(clock, self.server, clock.seconds), "big")

    def after(self, seconds):
        """Whether it is up, and whether it is silent, when they have passed."""
        self.server.clock.advance(seconds)
        return self.health.is_up, self.health.is_silent


def shown(answer):
    found = []
    for before in (True, False):
        asked = Asked((answer, b"{}") if isinstance(answer, int) else answer)
        asked.health.set(is_up=before)
        asked.health.start()
        assert not asked.health.is_asking
        found.append(asked.health.is_up)
    return found


def test_what_an_answer_shows():
    known = {"Refused": Refused, "DNSLookupError": DNSLookupError, "head": head}
    transcript.holds("health.txt", globals() | known)


def test_it_is_asked_again_every_few_seconds(log):
    asked = Asked((503, b"{}"))
    for _ in range(2):
        asked.health.start()
    assert asked.after(0) == (False, False)
    asked.server.otherwise = 200, b"{}"
    assert asked.after(HEALTHY_EVERY - 0.1) == (False, False)
    assert asked.after(0.1) == (True, False)
    asked.server.otherwise = None
    asked.after(HEALTHY_EVERY)
    assert asked.server.asked() == ["/health"] * 3
    assert log == ["upstream big is down: its conversations go to other upstreams"]
    asked.health.stop()
    assert not asked.server.clock.getDelayedCalls()


@pytest.mark.parametrize("waiting", [1, 0])
def test_one_that_is_silent_hangs_if_it_has_no_work_of_ours(waiting):
    """After two questions, which is within fifteen seconds.

    One that works is busy: its conversations are not to move for that, but new ones go elsewhere.
    """
    asked = Asked(None)
    asked.health.waiting = waiting
    asked.health.start()
    assert asked.health.is_asking
    assert asked.after(HEALTH_SECONDS) == (True, False)
    asked.after(HEALTHY_EVERY - HEALTH_SECONDS)
    assert asked.after(HEALTH_SECONDS) == (waiting == 1, True)
    asked.server.otherwise = 200, b"{}"
    assert asked.after(HEALTHY_EVERY - HEALTH_SECONDS) == (True, False)


@pytest.mark.parametrize("silence", [1, 2, 3, 4, 5])
def test_one_that_hangs_is_down_however_long_it_may_be_silent(silence):
    """``upstream_silence`` may end a question before the question's own limit does."""
    asked = Asked(None, silence)
    asked.health.start()
    assert asked.after(HEALTH_SECONDS) == (True, False)
    asked.after(HEALTHY_EVERY - HEALTH_SECONDS)
    assert asked.after(HEALTH_SECONDS) == (False, True)


def test_what_a_request_shows_counts_at_once_and_a_doubt_asks():
    """Whoever doubts it before it is asked at all has to wait; one question is enough."""
    asked = Asked()
    asked.health.doubt()
    assert asked.server.asked() == []
    asked.health.start()
    asked.health.set(is_up=False)
    assert not asked.health.is_up
    asked.health.doubt()
    assert asked.health.is_up
    asked.server.otherwise = None
    for _ in range(2):
        asked.health.doubt()
    assert asked.server.asked() == ["/health"] * 3
