"""What answers told of tokens and counters of time, put together."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.prefill import PrefillCost
from cacheproxy.observe.untimed import Untimed


@pytest.fixture
def untimed():
    return Untimed()


def test_counters_are_ahead_of_answers(untimed):
    """They hold a prompt while its answer is still being generated, at whichever look."""
    cost = PrefillCost()
    untimed.counted(1000, 2.0, idle=False)
    untimed.counted(0, 0.0, idle=False)
    untimed.answered(cost, 0, 1000)
    assert cost.seconds(0, 1000) is None
    untimed.counted(0, 0.0, idle=True)
    assert cost.seconds(0, 1000) == 2.0


def test_several_answers_are_as_deep_as_most_of_their_tokens(untimed):
    cost, same = PrefillCost(), PrefillCost()
    for start, tokens in ((0, 3000), (5000, 1000)):
        untimed.answered(cost, start, tokens)
    untimed.counted(4000, 4.0, idle=True)
    same.learn(500, 4000, 4.0)  # 2,500 deep in the middle, as 3,000 at 1,500 and 1,000 at 5,500
    for each in (cost, same):
        each.learn(20_000, 4000, 16.0)
    assert cost.seconds(0, 9000) == same.seconds(0, 9000)


def test_others_requests_are_forgotten_when_the_server_rests(untimed):
    cost = PrefillCost()
    untimed.counted(700, 9.0, idle=False)
    untimed.answered(cost, 0, 1000)
    untimed.counted(1000, 2.0, idle=False)
    untimed.counted(0, 0.0, idle=True)
    assert cost.seconds(0, 1000) is None
    untimed.answered(cost, 0, 1000)
    untimed.counted(1000, 2.0, idle=True)
    assert cost.seconds(0, 1000) == 2.0


def test_what_was_answered_and_never_counted_is_forgotten_at_once(untimed):
    cost = PrefillCost()
    untimed.answered(cost, 0, 1000)
    untimed.counted(300, 9.0, idle=False)
    untimed.counted(700, 9.0, idle=False)
    assert cost.seconds(0, 1000) is None


def test_models_whose_time_is_one_sum_are_told_nothing(untimed):
    costs = [PrefillCost(), PrefillCost()]
    for cost in costs:
        untimed.answered(cost, 0, 1000)
    untimed.counted(2000, 2.0, idle=True)
    assert [cost.seconds(0, 1000) for cost in costs] == [None, None]
