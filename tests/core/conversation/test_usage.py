"""What each dialect says of tokens, in its own arithmetic."""

import pytest

from cacheproxy.core.conversation.usage import Usage, usage_of
from tests import transcript


def timings(**odd):
    return {"timings": {"cache_n": 236, "prompt_n": 1, "predicted_n": 3} | odd}


@pytest.mark.parametrize(
    "usage",
    [
        *(None, [], "x", 5, {}),
        {"prompt_tokens": None},
        {"prompt_tokens": "5", "completion_tokens": "6"},
        {"prompt_tokens": 5.5, "prompt_tokens_details": [5], "completion_tokens": True},
        {"prompt_tokens": -5, "prompt_tokens_details": {"cached_tokens": -1}},
        {"prompt_tokens": 10**4000, "prompt_tokens_details": {"cached_tokens": 1 << 53}},
        {"input_tokens": {}, "cache_read_input_tokens": [], "output_tokens": None},
        {"input_tokens_details": 5},
    ],
)
def test_what_is_no_sane_count_is_not_guessed_at(usage):
    assert usage_of({"usage": usage}) == Usage()
    assert usage_of({"message": {"usage": usage}, "response": usage}) == Usage()


def test_all_that_is_said():
    transcript.holds("usage.txt", globals())
