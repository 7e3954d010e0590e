"""Sums and shares, and what is unknown stays unknown."""

import pytest
from cacheproxy_demo.client import Cost
from cacheproxy_demo.figures import figures, total

from cacheproxy.core.conversation.usage import Usage


def cost(prompt, reused, wall=2.0):
    return Cost(Usage(prompt=prompt, reused=reused), wall)


REFUSED = Cost(Usage(), 0.1, 400)


def test_the_sums_of_a_pass():
    """A turn could reuse the whole prompt of the turn before, and no more."""
    measured = figures([cost(100, 5), cost(110, 90), cost(120, 115)])
    assert (measured.requests, measured.refused, measured.seconds) == (3, 0, pytest.approx(6.0))
    assert (measured.prompt, measured.reused, measured.evaluated) == (330, 210, 120)
    assert (measured.possible, measured.found) == (210, 200)
    assert measured.share == pytest.approx(200 / 210)


@pytest.mark.parametrize(
    ("costs", "prompt", "refused"),
    [
        ([cost(100, 0)], 100, 0),
        ([cost(9, None), cost(9, None)], 18, 0),
        ([REFUSED, REFUSED], None, 2),
    ],
)
def test_what_is_unknown_stays_unknown(costs, prompt, refused):
    """One turn has none before it; refused requests are counted and leave no tokens."""
    measured = figures(costs)
    assert (measured.requests, measured.refused) == (len(costs), refused)
    assert (measured.prompt, measured.share) == (prompt, None)


def test_the_sums_of_several_passes_are_unknown_where_one_is():
    known, unknown = figures([cost(100, 0), cost(110, 99)]), figures([cost(9, None)])
    both = total([known, known])
    assert (both.requests, both.prompt, both.evaluated) == (4, 420, 222)
    assert both.share == known.share
    assert total([known, unknown]).requests == 3
    assert total([known, unknown]).reused is None
