"""The verdict on a window, and what a user can do now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.core.judge.advice import Advice
from cacheproxy.core.servers.profile import UNKNOWN, Profile, ServerFacts
from cacheproxy.core.servers.status import Look, MetricsPage, UpstreamState
from cacheproxy.web.answers import CacheState, headline, todo, without

from .sample import NOW, URL
from .test_dashboard import broken, result  # noqa: F401 (a fixture)


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


LLAMA = Profile(server=ServerFacts("llama-server", "b9724", "qwen", 4096, 2))
VLLM = Profile(server=ServerFacts("vllm", "0.32", "qwen", 4096, None))
SUMS = {"prompt": 1000, "reused": 900, "evaluated": 100}
UNMEASURED = {"prompt": 1000, "reused": 0, "evaluated": 0}


def look(state=UpstreamState.UP, metrics=MetricsPage.ON):
    return Look(URL, NOW, 0.0, state, metrics)


def ids(*arguments):
    return [each["id"] for each in todo(*arguments, (), lambda _: None)]


@pytest.mark.parametrize(
    ("profile", "seen", "sums", "wanted"),
    [
        (UNKNOWN, None, SUMS, []),
        (LLAMA, look(), SUMS, []),
        (LLAMA, look(UpstreamState.DOWN), SUMS, ["upstream-down"]),
        (LLAMA, look(metrics=MetricsPage.OFF), SUMS, ["metrics"]),
        (VLLM, look(metrics=MetricsPage.OFF), UNMEASURED, ["reporting"]),
        (VLLM, look(), SUMS, []),
        (replace(VLLM, reuses=False), look(), SUMS, ["prompt-cache"]),
    ],
)
def test_what_the_server_could_be_told(profile, seen, sums, wanted):
    assert ids(profile, seen, sums) == wanted


def test_a_break_that_is_felt_has_a_card_until_its_rule_is_applied(broken):  # noqa: F811
    """With the command that cures it."""
    (card,) = result(broken.dashboard.data({"window": "15m"}))["todo"]
    assert card["id"] == "system_changed-hex-nonce"
    assert card["title"] == "The system text changed (hex nonce)"
    assert card["command"] == "cacheproxy diagnose 2 --propose"
    broken.dashboard.is_applied = {2}.__contains__
    assert result(broken.dashboard.data({"window": "15m"}))["todo"] == []


@pytest.mark.parametrize(("share", "number"), [(0.01, 2), (0.5, None), (None, 2)])
def test_what_is_little_or_forgotten_has_none(share, number):
    row = {"reason": "evicted", "shape": None, "share": share, "number": number}
    told = lambda _: type("R", (), {"advice": (Advice("llama-server", "--parallel 4: x"),)})  # noqa: E731
    assert todo(UNKNOWN, None, SUMS, [row], told) == []
    (card,) = todo(UNKNOWN, None, SUMS, [row | {"share": 0.5, "number": 2}], told)
    assert (card["command"], card["why"]) == (None, "llama-server: --parallel 4: x")
