"""What was reused is told by what the counters gained, where a request ran alone."""

from __future__ import annotations

import pytest
from twisted.internet.defer import CancelledError, Deferred

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.servers.metrics_page import sample_of
from cacheproxy.core.servers.status import Look, UpstreamState
from tests.proxy.harness import whole

from .pages import (
    Pages,
    bad,
    page_of,
)
from .turned import proving_at


@pytest.fixture
def proving(reactor, upstream, logged):
    return proving_at(reactor, upstream.url, counts_reuse=True)


@pytest.fixture
def count(reactor, upstream, proving):
    """Count requests one after another, the counters each time as a page says."""
    upstream.reset(pages := Pages())

    def count(*steps):
        found = []
        for page, prompt in steps:
            pages.pages["/metrics"] = page
            found.append(reactor.run(proving.counted(Usage(prompt))))
        return found

    count.pages = pages
    return count


def test_what_the_counters_gained_is_what_was_reused(count):
    """From the second request on: of the first, nobody knows what was before."""
    steps = ((page_of(100, 0), 100), (page_of(220, 96), 120), (page_of(350, 96), 130))
    assert count(*steps) == [None, 96, 0]


UNFIT = {
    "more: another ran beside it": page_of(300, 100),
    "less: it is not in yet": page_of(150, 100),
    "fell": page_of(50, 10),
    "started anew": page_of(220, 0, start=2.5),
    "does not tell its start any more": page_of(220, 60, start=None),
    "reused fell": page_of(220, 30),
    "reused more than was sent": page_of(220, 400),
    "reused is not told any more": page_of(220, None),
    "no numbers": page_of("NaN", "many"),
    "no text": whole(b"\xff\xfe"),
    "an error": bad(b"500 Internal Server Error"),
    "nothing": b"",
}


@pytest.mark.parametrize("page", UNFIT.values(), ids=UNFIT)
def test_counters_that_do_not_fit_the_request_count_nothing(count, page):
    """The next one counts from where they stand."""
    assert count((page_of(100, 40), 100), (page, 120)) == [None, None]
    assert count((page_of(1000, 500), 120), (page_of(1100, 550), 100)) == [None, 50]


def test_counters_that_follow_a_little_later_are_read_once_more(count, upstream):
    """A server may count after it has answered."""
    late = iter([page_of(100, 40), page_of(220, 136)])
    assert count((page_of(100, 40), 100)) == [None]
    assert count((lambda peer: peer.send(next(late)), 120)) == [96]


FIRST = page_of(100, 40), 100


@pytest.mark.parametrize(
    ("steps", "counted"),
    [
        # the counters have the next prompt already: what both gained is neither's
        (
            [(page_of(350, 40), 120), (page_of(350, 40), 130), (page_of(490, 140), 140)],
            [None, 0, 100],
        ),
        ([(page_of(350, 140), 120), (page_of(350, 140), 130)], [None, None]),
        # somebody else asked beside it
        ([(page_of(1220, 640), 120), (page_of(1350, 740), 130)], [None, 100]),
        # without the length of the prompt nobody knows whether the request ran alone
        ([(page_of(220, 136), None), (page_of(320, 236), 100)], [None, 100]),
    ],
    ids=["a fast client", "a fast client that reused", "another's", "not counted in the answer"],
)
def test_what_two_gained_is_not_given_to_one(count, steps, counted):
    """The next one that ran alone is counted again."""
    assert count(FIRST, *steps) == [None, *counted]


def test_the_first_request_is_counted_from_the_last_look(reactor, upstream, proving):
    """That of the poller, which was there before."""
    upstream.reset(Pages(metrics=page_of(220, 136)))
    page = page_of(100, 40)
    sample = sample_of(page.partition(b"\r\n\r\n")[2].decode())
    proving.looked(Look("http://x", 0.0, 0.0, UpstreamState.UP, sample=sample))
    assert reactor.run(proving.counted(Usage(120))) == 96


@pytest.mark.parametrize(
    ("shown", "counted"),
    [
        ([(300, 140), (300, 140)], [None, None]),  # both at once: it is neither's
        ([(200, 136), (300, 136)], [96, 0]),  # the one that is shown first has it
    ],
)
def test_of_two_at_once_none_has_what_both_gained(reactor, upstream, proving, shown, counted):
    """They are counted one after the other."""
    upstream.reset(pages := Pages(metrics=page_of(100, 40)))
    reactor.run(proving.counted(Usage(100)))
    pages_to_come = (page_of(*figures) for figures in [*shown, *shown[-1:] * 4])
    pages.pages["/metrics"] = lambda peer: peer.send(next(pages_to_come))
    assert reactor.run_all(*(proving.counted(Usage(100)) for _ in "12")) == counted


def test_so_many_at_once_are_not_even_read(reactor, upstream, proving):
    """They cannot have run alone, and need not wait for one another."""
    upstream.reset(pages := Pages(metrics=page_of(100, 40)))
    assert reactor.run_all(*(proving.counted(Usage(7)) for _ in range(50))) == [None] * 50
    assert len(pages.asked) <= 2 * 9


def test_counters_that_hang_are_left(reactor, upstream, proving):
    """What waits behind them is asked in its turn."""
    left = []
    pages = Pages(metrics=lambda peer: left.append(peer.wait_closed()))
    upstream.reset(pages)
    found = []
    for prompt in (100, 120):
        asking = Deferred.fromCoroutine(proving.counted(Usage(prompt)))
        asking.addBoth(found.append)
    for number in (1, 2):
        reactor.until(lambda number=number: len(pages.asked) == number)
        reactor.clock.advance(3.1)
        reactor.until(lambda number=number: len(left) == len(found) == number)
    assert found == [None, None]


def test_counting_that_is_given_up_leaves_the_server_and_lets_the_next_one_in(
    reactor, upstream, proving
):
    """At once."""
    left, failed = [], []
    pages = Pages(metrics=lambda peer: left.append(peer.wait_closed()))
    upstream.reset(pages)
    asking = Deferred.fromCoroutine(proving.counted(Usage(100))).addErrback(failed.append)
    reactor.until(lambda: pages.asked)
    pages.pages["/metrics"] = page_of(100, 40)
    asking.cancel()
    reactor.until(lambda: left)
    assert failed[0].check(CancelledError)
    assert reactor.run(proving.counted(Usage(100))) is None
    pages.pages["/metrics"] = page_of(200, 60)
    assert reactor.run(proving.counted(Usage(100))) == 20
