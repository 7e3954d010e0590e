"""The verdict on a window."""

from __future__ import annotations

import pytest

from cacheproxy.web.headline import CacheState, headline, without


def told(window="1h", **sums):
    plain = {
        "turns": 4, "breaks": 0, "reused": 9000, "evaluated": 1000, "lost": 0, "spared": 0,
        "spared_seconds": 0.0, "unpriced": 0,
    }  # fmt: skip
    return headline(window, plain | sums)


@pytest.mark.parametrize(
    ("sums", "standing"),
    [
        ({"turns": 0}, CacheState.EMPTY),
        ({"reused": 0, "evaluated": 0}, CacheState.UNMEASURED),
        ({"reused": 4999, "evaluated": 5001}, CacheState.COLD),
        ({}, CacheState.WORKING),
        ({"breaks": 8, "lost": 999}, CacheState.WORKING),
        ({"breaks": 1, "lost": 1000}, CacheState.HITCHES),
        ({"breaks": 1, "lost": 2499}, CacheState.HITCHES),
        ({"breaks": 1, "lost": 2500}, CacheState.BREAKING),
    ],
)
def test_one_word_for_each_way_it_can_stand(sums, standing):
    """What was evaluated again after breaks decides, not how many there were."""
    found = told(**sums)
    assert found["standing"] is standing
    assert found["title"]
    assert found["text"].endswith(".")


def test_reused_and_new_come_together_with_what_is_due_to_the_proxy():
    """In shares of the same tokens; the time as it was priced when it happened."""
    found = told(spared=5000, spared_seconds=20.0)
    assert (found["share"], found["reused"], found["evaluated"]) == (0.9, 9000, 1000)
    assert found["due"]["seconds"] == 20.0
    assert found["due"]["source"].startswith("estimate")


def test_the_share_without_the_proxy():
    """Where the proxy made it worse, it would have been more."""
    sums = {"reused": 9000, "evaluated": 1000}
    assert without(sums | {"spared": 7700}) == 0.13
    assert without(sums | {"spared": -500}) == 0.95
    assert without({"reused": 0, "evaluated": 0, "spared": 0}) is None


def test_what_nobody_knows_is_none():
    """Not zero."""
    assert told(spared=5000, unpriced=5000)["due"]["seconds"] is None
    due = told(spared=5000, spared_seconds=20.0, unpriced=1000)["due"]
    assert (due["seconds"], due["unpriced"]) == (20.0, 1000)
    found = told(reused=0, evaluated=0)
    assert found["share"] is None


@pytest.mark.parametrize(("count", "words"), [(1, "1 break cost"), (1200, "1,200 breaks cost")])
def test_breaks_are_counted_in_words(count, words):
    found = told("30d", breaks=count, lost=100)
    assert "100 tokens, 1.0 % of all" in found["text"]
    assert words in found["text"]
    assert "30 days" in found["text"]
