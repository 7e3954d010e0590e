"""Lifetime totals: what passed through here, over all restarts, whatever the clock does."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.totals.windows import WINDOWS, lifetime, overview

from .builders import MS, NOW, keep, record, store_in

YEAR = 365 * 86_400


def test_nothing_is_counted_before_the_first_request(store):
    found = lifetime(store)
    assert found["since"] is None
    assert not any(found.values())


def test_all_that_answers_told_is_counted_over_all_restarts(tmp_path):
    """Of all upstreams."""
    broke = {"verdict": Judgement.BREAK, "reason": Reason.EVICTED, "lost": 700}
    for _ in range(3):
        store = store_in(tmp_path)
        keep(
            store,
            record(),
            record(upstream="http://other", **broke),
            record(side=True, **broke),
            record(failed=True, status=502, turn=0, prompt=None, reused=None, evaluated=None),
        )
        store.connection.close()
    found = lifetime(store_in(tmp_path))
    assert (found["requests"], found["turns"], found["errors"], found["breaks"]) == (12, 9, 3, 3)
    assert (found["prompt"], found["reused"], found["evaluated"]) == (9000, 8100, 900)
    assert (found["output"], found["since"]) == (600, NOW)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_and_lifetime_tell_the_same(store, name):
    """What was spared, too: no price is made here, what nobody could price is apart."""
    for number in range(30):
        spared, price = number * 37 - 200, None if number % 7 == 0 else number * 41 - 200
        keep(store, record(spared=spared, spared_ms=price, failed=number % 5 == 0))
        sums = overview(store, name, MS)["sums"]
        found = lifetime(store)
        assert found.pop("since") == NOW
        assert {name: sums[name] for name in found} == found


def test_it_began_with_the_first_request_by_a_clock_that_is_right(store):
    """It was a year ahead at first."""
    keep(store, record(wall=NOW + YEAR))
    assert lifetime(store)["since"] == NOW + YEAR
    for wall in (NOW, NOW + 60):
        keep(store, record(wall=wall))
        assert lifetime(store)["since"] == NOW
