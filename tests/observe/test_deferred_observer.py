"""Exchanges are seen a little later, in their order, few at a time, and none is lost."""

from twisted.internet.task import Clock

from cacheproxy.observe.deferred_observer import Afterwards


def test_they_are_seen_in_their_order_not_at_once():
    clock, seen = Clock(), []
    afterwards = Afterwards(clock, seen.append)
    for number in range(10):
        afterwards(number)
    clock.advance(0.019)
    assert not seen
    clock.advance(0.002)
    assert seen == [0, 1, 2, 3]
    clock.pump([0.002] * 5)
    assert seen == list(range(10))
    assert not clock.getDelayedCalls()


def test_many_are_seen_soon_and_in_larger_portions():
    clock, seen = Clock(), []
    afterwards = Afterwards(clock, seen.append)
    for number in range(1000):
        afterwards(number)
    clock.advance(0)
    assert len(seen) == 250


def test_who_asks_sees_all():
    clock, seen = Clock(), []
    afterwards = Afterwards(clock, seen.append)
    for number in range(10):
        afterwards(number)
    afterwards.settle()
    assert seen == list(range(10))
    afterwards(10)
    clock.pump([0.1] * 3)
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
    clock.pump([0.1] * 6)
    assert seen == [0, 1, 2, 3]
