"""Sums and shares, and what is unknown stays unknown."""

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.demo.client import Cost
from cacheproxy.demo.figures import figures, total


def cost(prompt, reused, wall=2.0):
    return Cost(Usage(prompt=prompt, reused=reused), wall)


REFUSED = Cost(Usage(), 0.1, 400)


def test_the_sums_of_a_pass():
    measured = figures([cost(100, 0), cost(110, 10), cost(120, 90)])
    assert (measured.requests, measured.refused) == (3, 0)
    assert (measured.prompt, measured.reused, measured.evaluated) == (330, 100, 230)
    assert measured.seconds == pytest.approx(6.0)


def test_a_turn_could_reuse_the_whole_prompt_of_the_turn_before_and_no_more():
    measured = figures([cost(100, 5), cost(110, 90), cost(120, 115)])
    assert (measured.possible, measured.found) == (210, 200)
    assert measured.share == pytest.approx(200 / 210)
    assert figures([cost(100, 0)]).share is None


def test_without_figures_on_reuse_they_stay_unknown():
    measured = figures([cost(9, None), cost(9, None)])
    assert measured.prompt == 18
    assert (measured.reused, measured.evaluated, measured.share) == (None, None, None)


def test_refused_requests_are_counted_and_leave_no_tokens():
    measured = figures([REFUSED, REFUSED])
    assert (measured.requests, measured.refused) == (2, 2)
    assert (measured.prompt, measured.share) == (None, None)


def test_the_sums_of_several_passes_are_unknown_where_one_is():
    known, unknown = figures([cost(100, 0), cost(110, 99)]), figures([cost(9, None)])
    both = total([known, known])
    assert (both.requests, both.prompt, both.evaluated) == (4, 420, 222)
    assert both.share == known.share
    assert total([known, unknown]).requests == 3
    assert total([known, unknown]).reused is None
