"""Speeds, of what is long enough to tell one; what prompts cost by the depth of their tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.speeds import (
    PrefillCost,
    PrefillSpeed,
)
from tests import transcript


def test_a_price_is_the_speed_of_half_the_tokens_that_were_shown_lately():
    """One slow request among many does not move it; another machine does, in time."""
    prefill = PrefillSpeed()
    assert prefill.speed is None
    for seconds in (1.0, 1.0, 1.0, 100.0, 1.0):
        assert prefill.learn(1000, seconds) == 1000 / seconds
    assert prefill.speed == 1000
    for _ in range(15):
        prefill.learn(1000, 0.5)
    assert prefill.speed == 2000


BASE, SLOPE = 2e-4, 2e-8


def takes(start, end):
    """The seconds of a server whose tokens cost twice as much after 10,000 others."""
    return BASE * (end - start) + SLOPE * (end**2 - start**2) / 2


def learned(*turns, seconds=takes):
    cost = PrefillCost()
    for start, end in turns:
        cost.learn(start, end - start, seconds(start, end))
    return cost


def test_one_prompt_tells_a_speed_and_no_more():
    """Nor do two that begin and end at about the same depths."""
    for turns in (((0, 10_000),), ((0, 10_000), (0, 10_400))):
        cost = learned(*turns)
        speed = sum(end for _, end in turns) / sum(takes(*turn) for turn in turns)
        assert cost.seconds(9000, 10_000) == pytest.approx(1000 / speed, rel=0.01)


def test_another_machine_is_believed_in_time():
    cost = learned(*100 * [(0, 15_000)])
    for _ in range(32):
        cost.learn(0, 10_000, 0.1)
    assert cost.seconds(0, 10_000) == pytest.approx(0.1)


TURN = st.tuples(st.integers(0, 300_000), st.integers(64, 300_000), st.floats(1e-6, 1e5))


@given(st.lists(TURN, min_size=1, max_size=40), st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_token_costs_less_than_nothing(turns, start, end):
    """Whatever a server tells."""
    cost = PrefillCost()
    for turn in turns:
        cost.learn(*turn)
    assert cost.seconds(start, end) * (end - start) >= 0


def test_all_that_is_said():
    transcript.holds("speeds.txt", globals())
