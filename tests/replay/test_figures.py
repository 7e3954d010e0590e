"""The figures of a replay."""

from __future__ import annotations

import pytest

from cacheproxy.replay.figures import summed


@pytest.mark.parametrize(
    ("values", "total"), [((), 0), ((1, 0.5), 1.5), ((1, None), None), ((None,), None)]
)
def test_a_sum_of_what_is_not_known_is_not_known(values, total):
    assert summed(iter(values)) == total
