"""A way on which alarms leave the proxy."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from cacheproxy.alarm.way import AlarmWay, NotToldError


def test_one_that_fails_at_once_is_no_end():
    """Else nothing is told after a URL that cannot be asked, though it was mended since."""
    told = []

    async def tell(alarm):
        told.append(alarm)
        raise NotToldError("there is no such place")

    way = AlarmWay("webhook", tell)
    way.put("first")
    way.put("second")
    assert told == ["first", "second"]


def test_it_ends_when_all_is_told_or_the_rest_is_given_up():
    begun: list[Deferred[None]] = []

    async def tell(_):
        begun.append(Deferred())
        await begun[-1]

    way = AlarmWay("webhook", tell)
    assert way.finish().called
    way.put("first")
    way.put("second")
    finished = way.finish()
    begun[0].callback(None)
    assert not finished.called
    finished.cancel()
    assert finished.called
    assert len(begun) == 2
