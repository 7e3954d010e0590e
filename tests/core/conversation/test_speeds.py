"""Speeds, of what is long enough to tell one; what prompts cost by the depth of their tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.speeds import (
    PrefillCost,
    PrefillSpeed,
    generation_speed,
    prefill_speed,
)
from cacheproxy.core.conversation.usage import Usage


@pytest.mark.parametrize(
    ("output", "seconds", "speed"),
    [
        (1, 1e-6, None),  # llama-server's timing of an answer of one token: 1,000,000 a second
        (7, 1.0, None),
        (8, 0.009, None),
        (8, 0.01, 800.0),
        (412, 12.5, 32.96),
        (412, None, None),
        (412, 0.0, None),
        (None, 1.0, None),
    ],
)
def test_generation_is_told_by_answers_of_some_length(output, seconds, speed):
    assert generation_speed(Usage(100, 0, output, 1.0, seconds)) == speed


@pytest.mark.parametrize(
    ("prompt", "reused", "seconds", "speed"),
    [
        (1000, 999, 0.01, None),  # one token takes about as long as fifty
        (1000, 937, 1.0, None),
        (1000, 936, 1.0, 64.0),
        (1000, 0, 0.0, None),
        (1000, 0, None, None),
        (1000, None, 1.0, None),
    ],
)
def test_prefill_is_told_by_prompts_of_some_length(prompt, reused, seconds, speed):
    assert prefill_speed(Usage(prompt, reused, 10, seconds, 1.0)) == speed


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


def test_a_long_prompt_says_more_than_a_short_one():
    """Each of its tokens takes longer, and it is long prompts that matter."""
    prefill = PrefillSpeed()
    prefill.learn(1000, 0.05)
    prefill.learn(7500, 1.5)
    assert prefill.speed == 5000


@pytest.mark.parametrize(("tokens", "seconds"), [(255, 1.0), (None, 1.0), (1000, None), (1000, 0)])
def test_little_work_tells_no_speed(tokens, seconds):
    prefill = PrefillSpeed()
    assert prefill.learn(tokens, seconds) is None
    assert prefill.speed is None


BASE, SLOPE = 2e-4, 2e-8


def takes(start, end):
    """The seconds of a server whose tokens cost twice as much after 10,000 others."""
    return BASE * (end - start) + SLOPE * (end**2 - start**2) / 2


def learned(*turns, seconds=takes):
    cost = PrefillCost()
    for start, end in turns:
        cost.learn(start, end - start, seconds(start, end))
    return cost


def test_deep_tokens_cost_what_deep_tokens_cost():
    """From a cold prompt and a turn far in it, all that stands between is known."""
    cost = learned((0, 15_000), (15_000, 15_500))
    for start, end in ((0, 5000), (4000, 15_500), (15_000, 4000), (15_400, 15_500)):
        assert cost.seconds(start, end) == pytest.approx(takes(start, end), rel=1e-6)


def test_one_prompt_tells_a_speed_and_no_more():
    """Nor do two that begin and end at about the same depths."""
    for turns in (((0, 10_000),), ((0, 10_000), (0, 10_400))):
        cost = learned(*turns)
        speed = sum(end for _, end in turns) / sum(takes(*turn) for turn in turns)
        assert cost.seconds(9000, 10_000) == pytest.approx(1000 / speed, rel=0.01)


def test_nothing_is_known_of_tokens_deeper_than_any_that_were_seen():
    """Two titles do not tell that a prompt of 100,000 tokens takes an hour."""
    cost = learned((0, 300), (0, 1500), seconds=lambda _, end: 1e-6 * end**2)
    assert cost.seconds(99_000, 100_000) == pytest.approx(1000 * 2e-6 * 1500, rel=0.01)


@pytest.mark.parametrize("seconds", [30.0, 0.03])
def test_one_odd_turn_among_others_is_left_out(seconds):
    """The machine was doing something else, or the server did not count all of its work."""
    cost = learned((0, 15_000), (15_000, 16_000), (16_000, 17_000), (17_000, 18_000))
    cost.learn(18_000, 1000, seconds)
    assert cost.seconds(5000, 15_000) == pytest.approx(takes(5000, 15_000), rel=0.02)


def test_another_machine_is_believed_in_time():
    cost = learned(*100 * [(0, 15_000)])
    for _ in range(32):
        cost.learn(0, 10_000, 0.1)
    assert cost.seconds(0, 10_000) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("tokens", "seconds"),
    [(63, 1.0), (None, 1.0), (1000, None), (1000, 0), (1000, 1e-200), (1000, 5e-324)],
)
def test_little_work_teaches_nothing(tokens, seconds):
    cost = PrefillCost()
    cost.learn(0, tokens, seconds)
    assert cost.seconds(0, 1000) is None


def test_a_slope_steeper_than_attentions_makes_no_token_free():
    """Two prompts that fit no line: what each token before adds is all that is priced then."""
    cost = learned((0, 4000), (0, 10_000), seconds=lambda _, end: 1e-11 * end**3)
    assert 0 < cost.seconds(0, 100) < cost.seconds(9900, 10_000)


def test_deep_tokens_cost_no_less_than_others():
    """A server that had other work to do beside its first prompt."""
    cost = learned((0, 10_000), (10_000, 12_000), seconds=lambda start, end: end - start * 1.1)
    assert cost.seconds(0, 100) == pytest.approx(cost.seconds(11_000, 11_100))


TURN = st.tuples(st.integers(0, 300_000), st.integers(64, 300_000), st.floats(1e-6, 1e5))


@given(st.lists(TURN, min_size=1, max_size=40), st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_token_costs_less_than_nothing(turns, start, end):
    """Whatever a server tells."""
    cost = PrefillCost()
    for turn in turns:
        cost.learn(*turn)
    assert cost.seconds(start, end) * (end - start) >= 0
