"""A trouble that comes with every turn."""

from twisted.internet import defer
from twisted.internet.task import Clock

from cacheproxy.proxy.learning.seldom import Seldom


def test_it_is_said_once_then_once_an_hour_with_how_often_it_came():
    """Each reason by itself, in words where it is the usual one."""
    clock = Clock()
    seldom = Seldom(clock)
    said = []
    for _ in range(195):
        said.append(seldom.reason(defer.TimeoutError()))
        clock.advance(10)
    assert said == ["it took too long"] + [None] * 194
    assert seldom.reason(ValueError("a secret")) == "ValueError"
    clock.advance(3600)
    assert seldom.reason(TimeoutError()) == (
        "it took too long (194 times more since this was said)"
    )
    assert seldom.reason(TimeoutError()) is None
