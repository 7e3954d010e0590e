"""What breaks weigh."""

import pytest

from cacheproxy.core.judge.explain import share_in_words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0.0 %"), (0.0004, "less than 0.1 %"), (0.004, "0.4 %"), (1, "100.0 %")],
)
def test_little_is_not_nothing(share, words):
    assert share_in_words(share) == words
