"""Whoever asks a server: a trouble that comes with every turn."""

import pytest
from twisted.internet import defer
from twisted.internet.task import Clock
from twisted.logger import formatEvent

from cacheproxy.proxy.probing.asker import Asker
from tests.logs import looking

TROUBLE = "the upstream did not tell"


@pytest.fixture
def logged():
    """All that was logged, as text."""
    found = []
    with looking(lambda event: found.append(formatEvent(event))):
        yield found


def test_it_is_said_once_then_once_an_hour_with_how_often_it_came(logged):
    """Each reason by itself, in words where it is the usual one."""
    clock = Clock()
    asker = Asker(clock, None, clock.seconds)
    for _ in range(195):
        asker.tell(TROUBLE, defer.TimeoutError())
        clock.advance(10)
    assert [line.partition(TROUBLE)[2] for line in logged] == [": it took too long"]
    asker.tell(TROUBLE, ValueError("a secret"))
    assert logged[-1].endswith("tell: ValueError")
    clock.advance(3600)
    asker.tell(TROUBLE, TimeoutError())
    assert logged[-1].endswith(": it took too long (194 times more since this was said)")
    asker.tell(TROUBLE, TimeoutError())
    asker.tell("another trouble", TimeoutError())
    assert [line.partition(": ")[2] for line in logged[3:]] == ["it took too long"]
