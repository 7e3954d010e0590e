"""The dashboard's data: figures and names alone."""

from __future__ import annotations

import json
import re

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.core.servers.profile import ServerFacts
from cacheproxy.core.servers.status import (
    Look,
    MetricsPage,
    Sample,
    ServerFigures,
    Slot,
    UpstreamState,
)
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.web.dashboard import upstream_of
from cacheproxy.web.pages import PageError
from tests.observe.exchanges import body, exchange

from .sample import NOW, URL, Shown

SECRET = "kanarienvogel"


def result(coroutine):
    """What a coroutine that does not wait returns, or raises."""
    found = []
    Deferred.fromCoroutine(coroutine).addBoth(found.append)
    assert found
    if hasattr(found[0], "raiseException"):
        found[0].raiseException()
    return found[0]


def judged(known, number, said, **changes):
    each = exchange(said, number=number, wall=NOW - 60 + number, **changes)
    known.judge(each)
    return each


@pytest.fixture
def broken():
    """A dashboard of two turns, of which the second broke."""
    shown, known = Shown(), Verdicts(Store())
    system = f"nonce {{}} {SECRET} {'x ' * 3000}"
    first = body("a", system=system.format("1a2b3c4d"))
    second = body("a", "b", "c", system=system.format("9c8d7e6f"))
    shown.finish(
        judged(known, 1, first, usage=Usage(2000, 0, 5, prompt_seconds=4.0)),
        judged(known, 2, second, usage=Usage(2010, 3, 5, prompt_seconds=4.0)),
    )
    return shown


def test_all_that_a_window_shows(broken):
    """Verdict, sums, breaks, sessions, lifetime and the upstream in one."""
    broken.dashboard.active = ["some-rule"]
    data = result(broken.dashboard.data({"window": "15m"}))
    assert data["headline"]["standing"] == "breaking"
    assert data["overview"]["sums"]["requests"] == 2
    assert [each["reason"] for each in data["breaks"]] == ["system_changed"]
    assert data["breaks"][0]["number"] == 2
    assert data["sessions"][0]["turns"] == 2
    assert data["lifetime"]["prompt"] == 4010
    assert data["rules"] == ["some-rule"]
    assert data["unkept"] == "--state-dir none"
    assert data["upstream"] == {"url": URL, "state": "unknown", "slots": [], "words": {}}
    assert data["clients"] == "agent (2 requests in 1 session, the last 58 s ago)"
    assert SECRET not in json.dumps(data)


def test_requests_are_filtered_and_searched(broken):
    ask = broken.dashboard.requests
    assert [row["number"] for row in result(ask({}))["requests"]] == [2, 1]
    assert [row["number"] for row in result(ask({"filter": "breaks"}))["requests"]] == [2]
    assert result(ask({"filter": "errors"}))["requests"] == []
    assert len(result(ask({"search": "AGENT"}))["requests"]) == 2
    assert result(ask({"search": "nobody"}))["requests"] == []
    second = {"from": f"{NOW - 58:.0f}", "to": f"{NOW - 57:.0f}"}
    assert [row["number"] for row in result(ask(second))["requests"]] == [2]
    for query, numbers in (({"to": second["from"]}, [1]), ({"from": "0", "to": ""}, [2, 1])):
        assert [row["number"] for row in result(ask(query))["requests"]] == numbers


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("data", {"window": "1y"}),
        ("requests", {"filter": "some"}),
        ("requests", {"before": "-1"}),
        ("requests", {"before": "٣"}),
        ("requests", {"before": "9" * 20}),
        ("requests", {"from": "yesterday"}),
        ("requests", {"to": "1.5"}),
    ],
)
def test_a_query_that_makes_no_sense_is_told(broken, page, query):
    with pytest.raises(PageError):
        result(getattr(broken.dashboard, page)(query))


def test_the_detail_says_where_and_why_without_the_words(broken):
    """The words are for who asks for the diagnosis."""
    found = broken.detail("2")
    assert (found["reason"], found["path"], found["turn"]) == ("system_changed", "/system", 2)
    assert found["lost"]["tokens"] > 1900
    assert found["advice"]
    text = json.dumps(found)
    assert SECRET not in text
    assert "9c8d7e6f" not in text
    with pytest.raises(PageError, match="no such exchange"):
        broken.detail("3")


def test_the_advice_asks_the_running_proxy_whether_there_are_captures_or_not(broken):
    for folder in ("", "my captures"):
        broken.dashboard.captures = folder
        (first, *_) = broken.detail("2")["advice"]
        assert first["why"] == "cacheproxy diagnose 2 --propose"


def test_the_detail_names_the_rules_that_edited():
    shown = Shown()
    edits = (Edit("/system", SECRET, "a stamp changes"), Edit("/system", SECRET, "a stamp changes"))
    shown.finish(
        exchange(body("a"), number=1, reports=(RuleReport("stamp", edits), RuleReport("idle")))
    )
    found = shown.detail("1")
    assert found["edits"] == [{"rule": "stamp", "count": 2, "why": "a stamp changes"}]
    assert SECRET not in json.dumps(found)


def test_a_speed_that_answers_do_not_tell_is_that_of_the_servers_counters():
    """Messages of llama-server name no times. Without a turn in the window there is none."""
    shown = Shown()
    shown.dashboard.speed = lambda: 431.0
    assert result(shown.dashboard.data({}))["speeds"] == {"prefill": None, "generation": None}
    shown.finish(exchange(body("a"), number=1, turn=1, usage=Usage(prompt=900, reused=0)))
    shown.clock.advance(5)
    assert result(shown.dashboard.data({}))["speeds"]["prefill"] == 431.0


def test_the_upstream_as_it_last_said():
    """Its slots hold counts, nothing of what they hold."""
    server = ServerFacts("llama-server", "b9724", "qwen", 4096, 2)
    slots = (Slot(0, 4096, 1024, busy=True), Slot(1, 4096, 0, busy=False))
    sample = Sample(ServerFigures(), running=1, waiting=2)
    look = Look(URL, NOW, 0.0, UpstreamState.UP, MetricsPage.ON, sample, server=server, slots=slots)
    found = upstream_of(URL, look)
    assert found["state"] == "up"
    assert found["server"]["summary"] == "llama-server b9724 · qwen · 4,096 context · 2 slots"
    assert (found["running"], found["waiting"]) == (1, 2)
    assert (found["kv"], found["kv_source"]) == (0.125, "slots")
    assert found["slots"][0] == {"id": 0, "context": 4096, "used": 1024, "busy": True}


def test_a_look_at_another_upstream_says_nothing_of_this_one():
    """After a reload, until the next look."""
    look = Look("http://other:1", NOW, 0.0, UpstreamState.UP)
    assert upstream_of(URL, look)["state"] == "unknown"
    assert upstream_of(URL, Look(URL, NOW, 0.0, UpstreamState.DOWN))["state"] == "down"


def test_it_is_json(broken):
    json.dumps(result(broken.dashboard.data({})), allow_nan=False)
    assert re.fullmatch(r"\d+\.\d+\.\d+", result(broken.dashboard.data({}))["version"])


def test_what_broke_last_and_what_each_client_read(broken):
    data = result(broken.dashboard.data({"window": "15m"}))
    assert data["without"] == pytest.approx(3 / 4010)
    last = data["last_break"]
    assert (last["number"], last["turn"], last["cure"]) == (2, 2, True)
    assert last["phrase"] == "The system text changed (hex nonce)"
    assert [(each["name"], each["prompt"]) for each in data["groups"]["client"]] == [
        ("agent", 4010)
    ]
