"""What a user can do now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.core.judge.advice import Advice
from cacheproxy.core.servers.profile import UNKNOWN, Profile, ServerFacts
from cacheproxy.core.servers.status import Look, MetricsPage, UpstreamState
from cacheproxy.web.todo import todo

from .sample import NOW, URL
from .test_dashboard import broken, result  # noqa: F401 (a fixture)

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
