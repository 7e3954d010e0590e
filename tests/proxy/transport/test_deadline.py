"""A silence is told of when it has lasted."""

import pytest
from twisted.internet.task import Clock

from cacheproxy.proxy.transport.deadline import Deadline


class Told:
    """How often a Deadline of ``limit`` seconds has told of itself, heard from at first."""

    def __init__(self, limit):
        self.clock, self.count = Clock(), 0
        self.silence = Deadline(self.clock, self.tell, limit)
        self.silence.heard()

    def tell(self):
        self.count += 1

    def after(self, seconds):
        self.clock.advance(seconds)
        return self.count


def test_hearing_costs_no_timer():
    """There is one, however many chunks come; and none when it is over."""
    told = Told(10)
    for _ in range(1000):
        told.silence.heard()
        assert told.after(0.5) == 0
    assert len(told.clock.getDelayedCalls()) == 1
    told.silence.stop()
    told.silence.go_on()
    assert told.clock.getDelayedCalls() == []


def test_the_time_is_counted_from_the_last_word():
    told = Told(10)
    told.after(9)
    told.silence.heard()
    assert [told.after(9.9), told.after(0.1), told.after(100)] == [0, 1, 1]


@pytest.mark.parametrize("limit", [10, 0])
def test_time_on_hold_does_not_count(limit):
    """And a word that was still on its way does not end the hold. 0 is for ever."""
    told = Told(limit)
    told.after(5)
    told.silence.hold()
    told.silence.heard()
    assert told.after(1000) == 0
    told.silence.go_on()
    assert [told.after(9.9), told.after(0.1)] == [0, bool(limit)]
