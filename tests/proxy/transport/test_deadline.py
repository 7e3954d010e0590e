"""A silence is told of when it has lasted."""

from __future__ import annotations

from twisted.internet.task import Clock

from cacheproxy.proxy.transport.deadline import Deadline


class Told:
    """How often a Deadline has told of itself."""

    def __init__(self, limit):
        self.clock = Clock()
        self.count = 0
        self.silence = Deadline(self.clock, self.tell, limit)

    def tell(self):
        self.count += 1


def test_hearing_costs_no_timer():
    """There is one, however many chunks come; and none when it is over."""
    told = Told(10)
    for _ in range(1000):
        told.silence.heard()
        told.clock.advance(0.5)
    assert len(told.clock.getDelayedCalls()) == 1
    assert not told.count
    told.silence.stop()
    assert told.clock.getDelayedCalls() == []
    told.silence.go_on()
    assert told.clock.getDelayedCalls() == []


def test_the_time_is_counted_from_the_last_word():
    """To the second, and told once."""
    told = Told(10)
    told.silence.heard()
    told.clock.advance(9)
    told.silence.heard()
    told.clock.advance(9.9)
    assert not told.count
    told.clock.advance(0.1)
    assert told.count == 1
    told.clock.advance(100)
    assert told.count == 1


def test_time_on_hold_does_not_count():
    """And a word that was still on its way does not end the hold."""
    told = Told(10)
    told.silence.heard()
    told.clock.advance(5)
    told.silence.hold()
    told.silence.heard()
    told.clock.advance(1000)
    assert not told.count
    told.silence.go_on()
    told.clock.advance(9.9)
    assert not told.count
    told.clock.advance(0.1)
    assert told.count == 1


def test_without_a_limit_nothing_is_told():
    """0 is for ever."""
    told = Told(0)
    told.silence.heard()
    told.silence.hold()
    told.silence.go_on()
    assert told.clock.getDelayedCalls() == []
