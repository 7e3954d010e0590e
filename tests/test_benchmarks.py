"""What the side-by-side benchmark is made of; nothing is timed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "bench"]:
        del sys.modules[name]


@pytest.mark.slow
def test_each_body_has_its_size_and_one_header_that_changes():
    """Within 5 % of what it is called; the header stands in the first system block."""
    from bench.bodies import CHAT, HEADER, SIZES, Bodies

    bodies = Bodies()
    for name, size in SIZES.items():
        body = bodies[name]
        one, two = body.content(1), body.content(2)
        assert len(one) == len(two) == len(body)
        assert abs(len(body) - size) < size * 0.05, (name, len(body))
        assert one.count(HEADER) == 1
        assert one != two
        value = json.loads(one)
        assert value["system"][0]["text"].startswith(HEADER.decode())
        assert list(value).index("system") > list(value).index("messages")
    chat = bodies[CHAT]
    assert HEADER not in chat.content(1)
    assert chat.content(1) == chat.content(2)


def test_ratios_are_of_medians():
    """A ratio compares the medians of the rounds; there is none to what is missing or zero."""
    from bench.figures import Figures

    figures = Figures()
    for one, two in ((10.0, 4.0), (1.0, 5.0), (12.0, 90.0)):
        figures.add("cpu", "80 KB", "one", one)
        figures.add("cpu", "80 KB", "two", two)
    figures.add("cpu", "80 KB", "three", -1.0)
    assert figures.ratio("cpu", "80 KB", "one", "two") == 2.0
    assert figures.ratio("cpu", "80 KB", "one", "three") is None
    assert figures.ratio("cpu", "80 KB", "one", "four") is None


def test_goals_compare_with_what_was_measured():
    """At most, at least, and at most another's plus something."""
    from bench.figures import Figures
    from bench.goals import Goal

    figures = Figures()
    figures.add("rps", "32", "ours", 170.0)
    figures.add("rps", "32", "bun", 100.0)
    most = Goal("", "rps", "32", 1.6, "bun")
    least = Goal("", "rps", "32", 1.7, "bun", at_least=True)
    plus = Goal("", "rps", "32", 1.0, "bun", plus=1.0)
    met = [
        goal.met(goal.measured(figures, "ours"), goal.bar(figures)) for goal in (most, least, plus)
    ]
    assert met == [False, True, False]
    assert plus.bar(figures) == 101.0
