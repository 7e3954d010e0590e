"""Exchanges are seen a little later, in their order, in small portions, and none is lost."""

from itertools import chain

from twisted.internet.task import Clock
from twisted.logger import formatEvent

from cacheproxy.daemon.process_parts import DeferredObserver
from tests.logs import looking


class Numbered(int):
    """An exchange as far as it is named here."""

    label = "client/one #1"


class Seen:
    """What is judged, and given on in portions: another may finish while it is."""

    def __init__(self, *, seconds=0.0):
        self.clock, self.portions, self.judged, self.meanwhile = Clock(), [], [], []
        self.take = DeferredObserver(self.clock, self.judge, self.give_on)
        self.seconds = seconds

    def judge(self, number):
        self.judged.append(number)
        self.clock.rightNow += self.seconds

    def give_on(self, most):
        portion, self.judged = self.judged[:most], self.judged[most:]
        self.portions.append(portion)
        while self.meanwhile:
            self.take(self.meanwhile.pop())
        return bool(self.judged)

    def pump(self):
        self.clock.pump([0.005] * 10)
        assert not self.clock.getDelayedCalls()
        return self.portions


def test_they_are_seen_in_their_order_not_at_once_and_within_50_ms():
    """Few together; one that finishes meanwhile is seen, too."""
    seen = Seen()
    for number in range(20):
        seen.take(number)
    seen.clock.advance(0.039)
    assert not seen.portions
    seen.meanwhile = [20]
    seen.clock.advance(0.002)
    assert seen.portions == [[*range(8)]]
    seen.clock.pump([0.005] * 3)
    assert seen.portions == [[*range(8)], [*range(8, 16)], [*range(16, 21)]]
    seen.pump()


def test_many_are_seen_in_larger_portions_and_who_asks_sees_all():
    seen = Seen()
    for number in range(1000):
        seen.take(number)
    seen.clock.advance(0.002)
    assert seen.portions == [[*range(250)]]
    seen.take.settle()
    assert [*chain(*seen.pump())] == [*range(1000)]


def test_verdicts_that_take_long_are_reached_over_several_rounds():
    """The reactor has others to serve in between."""
    seen = Seen(seconds=0.0015)
    for number in range(7):
        seen.take(number)
    seen.take.judge()
    assert seen.judged == [0, 1]
    assert seen.pump() == [[*range(4)], [4, 5], [6]]


def test_a_fault_in_one_verdict_is_no_fault_of_the_request_that_comes_now():
    """It is in the log; the others are judged."""
    seen = Seen()
    judge = seen.judge
    seen.take = DeferredObserver(seen.clock, lambda one: judge(1 / one), seen.give_on)
    for number in (1, 0, 1):
        seen.take(Numbered(number))
    events = []
    with looking(events.append):
        seen.take.judge()
    assert [event["log_failure"].type for event in events] == [ZeroDivisionError]
    assert formatEvent(events[0]) == "client/one #1: an exchange could not be judged"
    assert seen.pump() == [[1, 1]]
