"""What was reused is told by what the counters gained, where a request ran alone."""

import pytest
from twisted.internet.defer import CancelledError, Deferred

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.kinds.belief import MOVES
from cacheproxy.core.kinds.metrics_page import sample_of
from cacheproxy.core.kinds.status import Look, UpstreamState

from .shown import METRICS, counters, proving_of, run


@pytest.fixture
def proving(reactor):
    """Its counter was seen to move: of one that never did, see the last test."""
    proving = proving_of(reactor, {}, counts_reuse=True)
    proving.beliefs.saw(MOVES, True)
    return proving


@pytest.fixture
def count(proving):
    """Count requests one after another, the counters each time as a page says."""

    def count(*steps):
        found = []
        for page, prompt in steps:
            proving.asker.pages[METRICS] = page
            found += run(proving, proving.counted(Usage(prompt)))
        return found

    return count


FIRST = counters(100, 40), 100
UNFIT = {
    "more: another ran beside it": counters(300, 100),
    "less: it is not in yet": counters(150, 100),
    "fell": counters(50, 10),
    "started anew": counters(220, 0, start=2.5),
    "does not tell its start any more": counters(220, 60, start=None),
    "reused fell": counters(220, 30),
    "reused more than was sent": counters(220, 400),
    "reused is not told any more": counters(220, None),
    "no numbers": counters("NaN", "many"),
    "no text": (200, b"\xff\xfe"),
    "an error": (500, b"{}"),
}


@pytest.mark.parametrize("page", UNFIT.values(), ids=UNFIT)
def test_counters_that_do_not_fit_the_request_count_nothing(count, page):
    """The next one counts from where they stand."""
    assert count(FIRST, (page, 120)) == [None, None]
    assert count((counters(1000, 500), 120), (counters(1100, 550), 100)) == [None, 50]


def test_what_the_counters_gained_is_what_was_reused(count):
    """From the second request on: of the first, nobody knows what was before.

    A server may count after it has answered: then they are read once more.
    """
    assert count((counters(100, 0), 100), (counters(220, 96), 120)) == [None, 96]
    late = iter([counters(220, 96), counters(350, 96)])
    assert count((lambda _: next(late), 130)) == [0]


@pytest.mark.parametrize(
    ("steps", "counted"),
    [
        # the counters have the next prompt already: what both gained is neither's
        (
            [(counters(350, 40), 120), (counters(350, 40), 130), (counters(490, 140), 140)],
            [None, 0, 100],
        ),
        ([(counters(350, 140), 120), (counters(350, 140), 130)], [None, None]),
        # somebody else asked beside it
        ([(counters(1220, 640), 120), (counters(1350, 740), 130)], [None, 100]),
        # without the length of the prompt nobody knows whether the request ran alone
        ([(counters(220, 136), None), (counters(320, 236), 100)], [None, 100]),
    ],
    ids=["a fast client", "a fast client that reused", "another's", "not counted in the answer"],
)
def test_what_two_gained_is_not_given_to_one(count, steps, counted):
    """The next one that ran alone is counted again."""
    assert count(FIRST, *steps) == [None, *counted]


def test_the_first_request_is_counted_from_the_last_look(proving, count):
    sample = sample_of(FIRST[0][1].decode())
    proving.looked(Look("http://x", 0.0, 0.0, UpstreamState.UP, sample=sample))
    assert count((counters(220, 136), 120)) == [96]


@pytest.mark.parametrize(
    ("shown", "counted"),
    [
        ([(300, 140), (300, 140)], [None, None]),  # both at once: it is neither's
        ([(200, 136), (300, 136)], [96, 0]),  # the one that is shown first has it
    ],
)
def test_of_two_at_once_none_has_what_both_gained(proving, count, shown, counted):
    count(FIRST)
    to_come = (counters(*figures) for figures in [*shown, *shown[-1:] * 4])
    proving.asker.pages[METRICS] = lambda _: next(to_come)
    assert run(proving, *(proving.counted(Usage(100)) for _ in "12")) == counted


def test_so_many_at_once_are_not_even_read(proving):
    """They cannot have run alone, and need not wait for one another."""
    proving.asker.pages[METRICS] = counters(100, 40)
    assert run(proving, *(proving.counted(Usage(7)) for _ in range(50))) == [None] * 50
    assert len(proving.asker.asked) <= 2 * 9


def test_counters_that_hang_are_left(reactor, proving):
    proving.asker.pages[METRICS] = lambda _: Deferred()
    found = []
    for prompt in (100, 120):
        Deferred.fromCoroutine(proving.counted(Usage(prompt))).addBoth(found.append)
    for number in (1, 2):
        assert len(proving.asker.asked) == number
        reactor.advance(3.1)
        assert found == [None] * number


def test_counting_that_is_given_up_lets_the_next_one_in(proving, count):
    """At once, and the server is left."""
    failed = []
    proving.asker.pages[METRICS] = lambda _: Deferred(lambda _: failed.append("left"))
    asking = Deferred.fromCoroutine(proving.counted(Usage(100))).addErrback(failed.append)
    asking.cancel()
    assert failed[0] == "left"
    assert failed[1].check(CancelledError)
    assert count(FIRST, (counters(200, 60), 100)) == [None, 20]


@pytest.mark.parametrize("stands", [0, 40])
def test_a_counter_that_never_moves_counts_nothing(proving, count, stands):
    """Not even that nothing was reused; from the first rise on, it does."""
    proving.beliefs.forget()
    steps = [(counters(100 + 120 * number, stands), 120) for number in range(1, 5)]
    assert count((counters(100, stands), 100), *steps) == [None] * 5
    assert not proving.profile.counter_moves
    rises = [(counters(700, stands + 100), 120), (counters(800, stands + 100), 100)]
    assert count(*rises) == [100, 0]
    assert proving.profile.counter_moves
