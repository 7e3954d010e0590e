"""What breaks weigh."""

import pytest

from cacheproxy.core.judge.weights import BROKEN, FELT, share_in_words


def test_what_is_felt_is_less_than_what_is_broken():
    """The two losses that nobody needs to look at: 91 tokens of 1,807, and 0.4 % of all."""
    assert max(91 / 1807, 0.004) < FELT < BROKEN < 1


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0, "0.0 %"),
        (0.0004, "less than 0.1 %"),
        (0.004, "0.4 %"),
        (0.3991, "39.9 %"),
        (1, "100.0 %"),
    ],
)
def test_little_is_not_nothing(share, words):
    assert share_in_words(share) == words
