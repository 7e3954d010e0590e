"""Timers do not care for the time of day; tests/test_state.py turns a whole proxy's clock."""

import time

from twisted.internet.epollreactor import EPollReactor

from cacheproxy.proxy.transport.steady import keep_time


def test_it_counts_by_the_clock_that_only_goes_forward():
    reactor = EPollReactor()
    keep_time(reactor)
    before = time.monotonic()
    timer = reactor.callLater(0, lambda: None)
    assert before <= timer.getTime() <= time.monotonic()
    timer.cancel()
    reactor._poller.close()
