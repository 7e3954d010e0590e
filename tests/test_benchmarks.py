"""What the benchmarks are made of; nothing is timed."""

import json
import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield
    own = {"bench", "same", "compare_trees", "house", "calls"}
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]


@pytest.mark.slow
def test_each_body_has_its_size_and_one_header_that_changes():
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


def test_two_trees_differ_where_their_values_do():
    """Also where one has more; times and moments are no difference."""
    from compare_trees import differences
    from same.steady import log, values

    before = {"up": [{"body": "1-a"}], "log": log("12:00:01 #1 ok 0.1 s")}
    after = {"up": [{"body": "1-b"}, {"body": "2-c"}], "log": log("12:00:09 #1 ok 12 ms")}
    assert list(differences(before, after)) == [
        ("up[0] body", "1-a", "1-b"),
        ("up[1]", None, {"body": "2-c"}),
    ]
    assert values({"wall": 1.0, "last": 1795363094.02, "turn": 2}) == {"last": "MOMENT", "turn": 2}


def test_a_circle_of_modules_is_found():
    """Whoever reaches each other, once; who only reaches it is not of it."""
    from house import circles, rooms

    graph = {"p.a.x": {"p.b.y"}, "p.b.y": {"p.b.z"}, "p.b.z": {"p.a.w"}, "p.a.w": {"p.a.x"}}
    assert circles(graph | {"p.c.v": {"p.a.x"}}) == {frozenset(graph)}
    assert circles(rooms(graph)) == {frozenset({"p.a", "p.b"})}


def test_a_day_becomes_the_next_from_the_middle_on():
    """However the client writes it."""
    from same.midnight import over

    text = "2026-11-21, 11/21/2026, Saturday, November 21, 2026, Sat Nov 21 2026"
    lines = [{"method": "HEAD", "body": ""}, *[{"method": "POST", "body": text}] * 2]
    after = "2026-11-22, 11/22/2026, Sunday, November 22, 2026, Sun Nov 22 2026"
    assert [line["body"] for line in over(lines)] == ["", text, after]


def test_rows_of_totals_are_compared_by_what_they_say(tmp_path):
    """Not by numbers of rows, times, or what counts the server; a table without rows is none."""
    import sqlite3

    from same.kept import rows

    with sqlite3.connect(tmp_path / "totals.db") as file:
        file.executescript(
            "CREATE TABLE words (id, text); INSERT INTO words VALUES (7, 'cold');"
            "CREATE TABLE upstreams (id, url, settled); INSERT INTO upstreams VALUES (3, 'u', 9);"
            "CREATE TABLE exchanges (id, at, number, upstream, verdict, lost);"
            "INSERT INTO exchanges VALUES (1, 99, 1, 3, 7, NULL);"
            "CREATE TABLE samples (at, looks); INSERT INTO samples VALUES (1, 1);"
            "CREATE TABLE routed (upstream, requests);"
        )
    file.close()
    assert rows(tmp_path, str.upper) == {
        "words": [{"text": "COLD"}],
        "upstreams": [{"url": "U"}],
        "exchanges": [{"number": 1, "upstream": "U", "verdict": "COLD"}],
    }


def test_reasoning_of_earlier_turns_is_in_the_prompt_if_asked_for():
    """Behind the last user message it always is."""
    from same.replies import rendered

    said = {"role": "assistant", "content": "yes", "reasoning_content": "hm"}
    messages = [{"role": "user", "content": "one"}, said, {"role": "user", "content": "two"}]
    kept = {"chat_template_kwargs": {"preserve_thinking": True}}
    asked = [{"messages": messages[:2]}, {"messages": messages}, {"messages": messages, **kept}]
    shown = ["hmyes" in rendered(body, hoists=False, drops_reasoning=True) for body in asked]
    assert shown == [True, False, True]


def test_a_test_counts_for_the_room_that_it_is_called_by():
    """The nearest one that there is; a distribution's own tests for that."""
    from house import room_of, tested_by

    files = ("core/rules/fold.py", "proxy/resource.py", "tap.py", "translate/translation.py")
    rooms = {room_of(f"cacheproxy/{file}") for file in files}
    assert {room for _, room in rooms} == {"core.rules", "proxy", "tap", "translate"}
    assert room_of("tools/replay/cacheproxy_replay/plan.py") == ("tools", "replay")
    tests = {
        "tests/core/rules/test_fold.py": ("cacheproxy", "core.rules"),
        "tests/proxy/pool/test_pool.py": ("cacheproxy", "proxy"),
        "tests/test_tap.py": ("cacheproxy", "tap"),
        "tests/browser/test_page.py": ("tests", "all else"),
        "clients/pi/tests/test_pi.py": ("clients", "pi"),
    }
    assert {name: tested_by(name, rooms) for name in tests} == tests


def test_calls_are_ours_or_those_of_libraries():
    from pathlib import Path

    from same.counting import is_ours

    tree, installed = Path("/tree"), "/venv/lib/python3.11/site-packages"
    ours = (f"{tree}/cacheproxy/tap.py", f"{tree}/clients/pi/cacheproxy_pi.py")
    assert all(is_ours(file, tree) for file in (*ours, f"{installed}/cacheproxy/tap.py"))
    others = (f"{tree}/.venv/lib/site-packages/treq/api.py", "/usr/lib/python3.11/json/encoder.py")
    assert not any(is_ours(file, tree) for file in others)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions count others")
@pytest.mark.parametrize("what", ["calls", "bytecodes"])
def test_a_request_takes_no_more_than_the_page_allows(what):
    """Each change adds a few; docs/architecture.md has how many there may be."""
    from calls import REPOSITORY, measure

    page = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    _, _, table = page.partition(f"| {what.capitalize()} of a request | Aim")
    aims = re.findall(r"^\| .* \| (\d+) \+ (\d+) \| \d+ \+ \d+ \|$", table, re.MULTILINE)[:3]
    for (name, counts), aim in zip(measure(REPOSITORY, 30, what), aims, strict=True):
        assert counts.ours <= int(aim[0]), (name, counts)
        assert counts.libraries <= int(aim[1]), (name, counts)
