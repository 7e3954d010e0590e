"""The length of a trial's prompt."""

import pytest

from cacheproxy.doctor.trial_prompt import rounds_for


@pytest.mark.parametrize(("block", "rounds"), [(1, 5), (16, 5), (128, 5), (256, 7), (2048, 5)])
def test_prompts_are_as_long_as_two_blocks_if_that_is_bearable(block, rounds):
    assert rounds_for(block) == rounds
