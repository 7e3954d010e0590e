"""What was reused is told by what the counters gained, where a request ran alone."""

from __future__ import annotations

import pytest
from twisted.internet.defer import CancelledError, Deferred

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.server.metrics_page import sample_of
from cacheproxy.core.server.status import Look, State
from tests.proxy.harness import whole

from .pages import (
    Pages,
    bad,
    page_of,
)
from .turned import proving_at

EACH_OF_MANY = b"vllm:prompt_tokens_total 0.004\nvllm:prompt_tokens_cached_total 0.001\n"


@pytest.fixture
def count(reactor, upstream, logged):
    """Count requests one after another, the counters each time as a page says."""
    upstream.reset(pages := Pages())
    proving = proving_at(reactor, upstream.url, counts_reuse=True)

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


@pytest.mark.parametrize(
    "page",
    [
        page_of(300, 100),
        page_of(150, 100),
        page_of(50, 10),
        page_of(220, 0, start=2.5),
        page_of(220, 60, start=None),
        page_of(220, 30),
        page_of(220, 400),
        page_of(220, None),
        page_of("NaN", "NaN"),
        page_of("many", "few"),
        page_of(-220, -60),
        whole(b""),
        whole(b"<html>"),
        whole(b"\xff\xfe"),
        whole(EACH_OF_MANY * 55_000),
        bad(b"500 Internal Server Error"),
        b"",
    ],
    ids=[
        "more: another ran beside it",
        "less: it is not in yet",
        "fell",
        "started anew",
        "does not tell its start any more",
        "reused fell",
        "reused more than was sent",
        "reused is not told any more",
        "no numbers",
        "texts",
        "negative",
        "empty",
        "a page of another kind",
        "no text",
        "more series than any server has",
        "an error",
        "nothing",
    ],
)
def test_counters_that_do_not_fit_the_request_count_nothing(count, page):
    """The next one counts from where they stand."""
    (first,) = count((page_of(100, 40), 100))
    (found,) = count((page, 120))
    assert first is found is None
    assert count((page_of(1000, 500), 120), (page_of(1100, 550), 100)) == [None, 50]


def test_counters_that_follow_a_little_later_are_read_once_more(count, upstream):
    """A server may count after it has answered."""
    late = iter([page_of(100, 40), page_of(220, 136)])
    assert count((page_of(100, 40), 100)) == [None]
    assert count((lambda peer: peer.send(next(late)), 120)) == [96]


def test_a_client_that_is_faster_than_we_are_is_counted_where_nothing_was_reused(count):
    """The counters have the next prompt already, and then what both gained: it is neither's."""
    first, ahead = (page_of(100, 40), 100), (page_of(350, 40), 120)
    assert count(first, ahead, (page_of(350, 40), 130)) == [None, None, 0]
    assert count((page_of(490, 140), 140)) == [100]


def test_what_two_reused_together_is_not_given_to_one(count):
    first, ahead = (page_of(100, 40), 100), (page_of(350, 140), 120)
    assert count(first, ahead, (page_of(350, 140), 130)) == [None, None, None]


def test_after_somebody_else_asked_the_next_is_counted_again(count):
    first, beside = (page_of(100, 40), 100), (page_of(1220, 640), 120)
    assert count(first, beside, (page_of(1350, 740), 130)) == [None, None, 100]


def test_the_first_request_is_counted_from_the_last_look(reactor, upstream, logged):
    """That of the poller, which was there before."""
    upstream.reset(Pages(metrics=page_of(220, 136)))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    page = page_of(100, 40)
    sample = sample_of(page.partition(b"\r\n\r\n")[2].decode())
    proving.looked(Look("http://x", 0.0, 0.0, State.UP, sample=sample))
    assert reactor.run(proving.counted(Usage(120))) == 96


def test_what_was_not_counted_in_the_answer_is_not_counted_by_us(count):
    """The length of the prompt tells whether the request ran alone."""
    assert count((page_of(100, 40), 100), (page_of(220, 136), None)) == [None, None]
    assert count((page_of(320, 236), 100)) == [100]


def test_of_two_at_once_none_has_what_both_gained(reactor, upstream, logged):
    """They are counted one after the other, and what was gained is neither's."""
    upstream.reset(pages := Pages(metrics=page_of(100, 40)))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    reactor.run(proving.counted(Usage(100)))
    pages.pages["/metrics"] = page_of(300, 140)
    counting = proving.counted(Usage(100)), proving.counted(Usage(100))
    assert reactor.run_all(*counting) == [None, None]


def test_two_of_one_length_do_not_both_have_what_one_gained(reactor, upstream, logged):
    """The one that is shown first has it; the other has what comes then."""
    upstream.reset(pages := Pages(metrics=page_of(100, 40)))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    reactor.run(proving.counted(Usage(100)))
    shown = iter([page_of(200, 136), page_of(300, 136)])
    pages.pages["/metrics"] = lambda peer: peer.send(next(shown))
    counting = proving.counted(Usage(100)), proving.counted(Usage(100))
    assert reactor.run_all(*counting) == [96, 0]


def test_so_many_at_once_are_not_even_read(reactor, upstream, logged):
    """They cannot have run alone, and need not wait for one another."""
    upstream.reset(pages := Pages(metrics=page_of(100, 40)))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    assert reactor.run_all(*(proving.counted(Usage(7)) for _ in range(50))) == [None] * 50
    assert len(pages.asked) <= 2 * 9


def test_counters_that_hang_are_left(reactor, upstream, logged):
    """What waits behind them is asked in its turn."""
    left = []
    pages = Pages(metrics=lambda peer: left.append(peer.wait_closed()))
    upstream.reset(pages)
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
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
    reactor, upstream, logged
):
    """At once."""
    left, failed = [], []
    pages = Pages(metrics=lambda peer: left.append(peer.wait_closed()))
    upstream.reset(pages)
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    asking = Deferred.fromCoroutine(proving.counted(Usage(100))).addErrback(failed.append)
    reactor.until(lambda: pages.asked)
    pages.pages["/metrics"] = page_of(100, 40)
    asking.cancel()
    reactor.until(lambda: left)
    assert failed[0].check(CancelledError)
    assert reactor.run(proving.counted(Usage(100))) is None
    pages.pages["/metrics"] = page_of(200, 60)
    assert reactor.run(proving.counted(Usage(100))) == 20
