"""Exchanges are seen a little later, in their order, few at a time, and none is lost."""

from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from cacheproxy.observe.afterwards import Afterwards


def test_they_are_seen_in_their_order_not_at_once():
    clock, seen = Clock(), []
    afterwards = Afterwards(clock, seen.append)
    for number in range(10):
        afterwards(number)
    assert not seen
    clock.advance(0.005)
    assert seen == [0, 1, 2, 3]
    clock.pump([0.005] * 5)
    assert seen == list(range(10))
    assert not clock.getDelayedCalls()


def test_many_are_seen_in_larger_portions():
    clock, seen = Clock(), []
    afterwards = Afterwards(clock, seen.append)
    for number in range(1000):
        afterwards(number)
    clock.advance(0.005)
    assert len(seen) == 250


def test_who_asks_sees_all():
    clock, seen = Clock(), []
    afterwards = Afterwards(clock, seen.append)
    for number in range(10):
        afterwards(number)
    afterwards.settle()
    assert seen == list(range(10))
    afterwards(10)
    clock.pump([0.005] * 3)
    assert seen == list(range(11))
    assert not clock.getDelayedCalls()


def test_one_that_is_put_meanwhile_is_seen_too():
    clock, seen = Clock(), []

    def see(number):
        seen.append(number)
        if number < 3:
            afterwards(number + 1)

    afterwards = Afterwards(clock, see)
    afterwards(0)
    clock.pump([0.005] * 6)
    assert seen == [0, 1, 2, 3]


def test_one_is_seen_while_the_upstream_works():
    clock, seen = Clock(), []
    afterwards = Afterwards(clock, seen.append)
    afterwards.meanwhile()
    for number in range(3):
        afterwards(number)
    afterwards.meanwhile()
    assert seen == [0]
    clock.pump([0.005] * 2)
    assert seen == [0, 1, 2]


def test_the_request_that_goes_up_is_not_to_blame():
    def see(number):
        raise ValueError(number)

    afterwards = Afterwards(Clock(), see)
    afterwards(0)
    with capturedLogs() as logs:
        afterwards.meanwhile()
    assert [type(event["log_failure"].value) for event in logs] == [ValueError]
