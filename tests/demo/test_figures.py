"""Sums and ratios, and what is unknown stays unknown."""

import pytest

from cacheproxy.core.usage import Usage
from cacheproxy.demo.client import Cost
from cacheproxy.demo.figures import figures, total
from cacheproxy.demo.run import Passes


def cost(prompt, reused, seconds, wall=9.0):
    return Cost(Usage(prompt=prompt, reused=reused, prompt_seconds=seconds), wall)


def test_totals_and_ratios():
    measured = figures(
        Passes(
            direct=(cost(100, 0, 1.0), cost(110, 10, 1.0)),
            through=(cost(100, 0, 1.0), cost(110, 100, 0.25)),
        )
    )
    assert measured.server_time
    assert total(measured.direct).prompt == 210
    assert total(measured.through).share == pytest.approx(100 / 210)
    assert measured.faster == pytest.approx(2 / 1.25)
    assert measured.faster_later == pytest.approx(4.0)
    assert measured.fewer == pytest.approx(200 / 110)
    assert not measured.warm


def test_the_wall_clock_counts_for_all_if_one_answer_lacks_the_servers_time():
    measured = figures(Passes((cost(9, 0, 1.0, wall=3.0),), (cost(9, 0, None, wall=2.0),)))
    assert not measured.server_time
    assert measured.faster == pytest.approx(1.5)


def test_without_figures_on_reuse_they_stay_unknown():
    measured = figures(Passes((cost(9, None, 2.0),), (cost(9, None, 1.0),)))
    assert total(measured.direct).reused is None
    assert measured.direct[0].share is None
    assert measured.fewer is None
    assert measured.faster_later is None
    assert measured.faster == pytest.approx(2.0)


def test_a_first_turn_that_reused_is_told():
    assert figures(Passes((cost(100, 90, 1.0),), (cost(100, 0, 1.0),))).warm
