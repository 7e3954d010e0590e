"""Speeds, of what is long enough to tell one."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.speeds import PrefillSpeed, generation_speed, prefill_speed
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
def test_little_work_teaches_nothing(tokens, seconds):
    prefill = PrefillSpeed()
    assert prefill.learn(tokens, seconds) is None
    assert prefill.speed is None
