"""Exchanges are seen a little later, in their order, in small portions, and none is lost."""

from twisted.internet.task import Clock

from cacheproxy.daemon.process_parts import DeferredObserver


def test_they_are_seen_in_their_order_not_at_once():
    """Few together; one that is put meanwhile is seen, too."""
    clock, seen = Clock(), []

    def see(numbers):
        seen.append(numbers)
        if 9 in numbers:
            afterwards(10)

    afterwards = DeferredObserver(clock, see)
    for number in range(10):
        afterwards(number)
    clock.advance(0.019)
    assert not seen
    clock.advance(0.002)
    assert seen == [[0, 1, 2, 3]]
    clock.pump([0.005] * 10)
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [10]]
    assert not clock.getDelayedCalls()


def test_many_are_seen_in_larger_portions_and_who_asks_sees_all():
    clock, seen = Clock(), []
    afterwards = DeferredObserver(clock, seen.extend)
    for number in range(1000):
        afterwards(number)
    clock.advance(0.002)
    assert len(seen) == 250
    afterwards.settle()
    assert seen == list(range(1000))
    clock.pump([0.002] * 3)
    assert not clock.getDelayedCalls()
