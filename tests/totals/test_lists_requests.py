"""The table of requests: pages, filters, search; and the sessions."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.totals import lists as module
from cacheproxy.totals.lists import FILTERS, requests, sessions
from cacheproxy.totals.windows import breaks

from .builders import MS, NOW, keep, record, store_in


def numbers(page):
    return [each["number"] for each in page["requests"]]


def some(count):
    """Every third one breaks, every fourth is slow, every fifth fails; by three clients."""
    return [
        record(
            number=number,
            wall=NOW + number,
            client=("claude", "cline", "open_claw")[number % 3],
            session=f"session-{number % 6}",
            model=("Qwen-Coder", "gemma")[number % 2],
            reason=Reason.EVICTED if number % 3 == 0 else None,
            first_ms=12_000 if number % 4 == 0 else 500,
            failed=number % 5 == 0,
        )
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(
    ("which", "wanted"),
    [
        ("all", lambda number: True),
        ("breaks", lambda number: number % 3 == 0),
        ("slow", lambda number: number % 4 == 0),
        ("errors", lambda number: number % 5 == 0),
    ],
)
def test_pages_of_each_filter_hold_each_request_once(store, which, wanted):
    """The latest first."""
    keep(store, *some(60))
    found, before = [], None
    for _ in range(20):
        page = requests(store, which, before=before, limit=7)
        found += numbers(page)
        before = page["next"]
        if before is None:
            break
    assert found == [number for number in range(60, 0, -1) if wanted(number)]


def test_a_cause_lists_the_breaks_that_it_counts(store):
    """By reason and shape, also within a period; a cause that there is not lists none."""
    dated = {"reason": Reason.SYSTEM_CHANGED, "shape": "changed text"}
    kinds = ({"reason": Reason.SYSTEM_CHANGED}, dated, {"reason": Reason.EVICTED}, {})
    keep(store, *(record(number=number, **kinds[number % 4]) for number in range(12)))
    for each in breaks(store, "1h", MS):
        cause = " ".join(filter(None, (each["reason"], each["shape"])))
        found = requests(store, "breaks", cause=cause, period=(MS - 1000, MS + 1000))["requests"]
        assert found == requests(store, "breaks", cause=cause)["requests"]
        assert {(one["reason"], one["shape"]) for one in found} == {(each["reason"], each["shape"])}
        assert len(found) == each["count"] == 3
    assert requests(store, "breaks", cause="system_changed date")["requests"] == []
    assert requests(store, "breaks", cause="nonsense")["requests"] == []


@pytest.mark.parametrize("which", FILTERS)
@pytest.mark.parametrize("search", ["", "cline"])
@pytest.mark.parametrize(
    ("start", "end"), [(1, 25), (40, 41), (0, 10**9), (61, 99), (30, 30), (30, 20)]
)
def test_a_period_has_what_began_in_it(store, which, search, start, end):
    """Page by page, with each filter, and where a clock was set back in between."""
    keep(store, *some(60), *(each | {"number": each["number"] + 60} for each in some(60)))
    every = requests(store, which, search, limit=200)["requests"]
    period = (MS + 1000 * start, MS + 1000 * end)
    found, before = [], None
    for _ in range(60):
        page = requests(store, which, search, before, limit=7, period=period)
        found += page["requests"]
        before = page["next"]
        if before is None:
            break
    assert found == [each for each in every if start <= each["at"] - NOW < end]


def test_a_period_is_found_by_its_index(store):
    """A page of one reads no more of many rows than of few."""

    def steps(count):
        keep(store, *some(count))
        made = []
        store.connection.set_progress_handler(lambda: made.append(1), 10)
        requests(store, limit=5, period=(MS + 10_000, MS + 20_000))
        store.connection.set_progress_handler(None, 0)
        store.connection.execute("DELETE FROM exchanges")
        return len(made)

    assert steps(1000) < 1.5 * steps(50)


@pytest.fixture(params=[0, 10_000], ids=["by age", "by session"])
def _either_way(request, monkeypatch):
    """Whichever way sessions are looked up."""
    monkeypatch.setattr(module, "_FEW", request.param)


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize("which", FILTERS)
@pytest.mark.parametrize(
    ("search", "wanted"),
    [
        ("claude", lambda number: number % 3 == 0),
        ("CLINE", lambda number: number % 3 == 1),
        ("session-4", lambda number: number % 6 == 4),
        ("qwen", lambda number: number % 2 == 0),
        ("nobody", lambda number: False),
        ("%", lambda number: False),
        ("open_claw", lambda number: number % 3 == 2),
        ("openxclaw", lambda number: False),
        ("'; DROP TABLE exchanges; --", lambda number: False),
    ],
)
def test_search_finds_clients_sessions_and_models(store, which, search, wanted):
    """As text, not as a pattern."""
    keep(store, *some(36))
    everything = numbers(requests(store, which, limit=100))
    page = requests(store, which, search, limit=100)
    assert numbers(page) == [number for number in everything if wanted(number)]
    assert page["next"] is None


def test_a_request_as_it_is_shown(store):
    keep(
        store,
        record(
            rules="a,b",
            reason=Reason.EVICTED,
            lost=5,
            lost_ms=250,
        ),
        record(output_ms=None, status=None, session=None, served="qwen"),
    )
    later, earlier = requests(store)["requests"]
    assert (earlier["client"], earlier["session"]) == ("agent", "3f9a")
    assert (earlier["asked"], earlier["model"]) == ("asked-for", "qwen")
    assert earlier["rules"] == ["a", "b"]
    assert earlier["at"] == NOW
    assert (earlier["first_seconds"], earlier["total_seconds"], earlier["added"]) == (0.6, 3, 0.002)
    assert (earlier["prompt"], earlier["reused"], earlier["evaluated"]) == (1000, 900, 100)
    assert (earlier["reason"], earlier["lost"], earlier["lost_seconds"]) == ("evicted", 5, 0.25)
    assert (earlier["speed"], earlier["speed_source"]) == (25, "measured")
    assert (later["speed"], later["speed_source"]) == (pytest.approx(50 / 2.4), "estimated")
    assert (later["session"], later["rules"], later["status"]) == (None, [], None)
    json.dumps([earlier, later])


@pytest.mark.parametrize("milliseconds", [0, None])
def test_an_answer_of_one_token_has_no_speed(store, milliseconds):
    """Measured or not."""
    keep(store, record(output=1, output_ms=milliseconds))
    (found,) = requests(store)["requests"]
    assert found["speed"] is None


def test_numbers_are_of_this_run(tmp_path):
    """Those of an earlier one lead nowhere."""
    store = store_in(tmp_path)
    keep(store, record(number=7, reason=Reason.EVICTED))
    store.connection.close()
    store = store_in(tmp_path)
    keep(store, record(number=1))
    assert numbers(requests(store)) == [1, None]
    assert breaks(store, "1h", MS)[0]["number"] is None
    store.connection.close()


def test_a_page_is_bounded(store):
    keep(store, *some(300))
    assert len(requests(store, limit=10**6)["requests"]) == 200
    assert len(requests(store, limit=-1)["requests"]) == 1


def test_credentials_that_stand_in_names_are_not_kept(store):
    key = "sk-ant-a1b2c3d4e5f6a7b8c9d0"
    keep(store, record(session=key, client=key, model=key, rules=key, place=key))
    kept = "\n".join(store.connection.iterdump())
    assert "sk-redacted" in kept
    assert "a1b2c3d4" not in kept


def test_sessions(store):
    """Turns of the conversation, its context, and what was reused of prompts that say so."""
    keep(
        store,
        record(wall=NOW, session="a", prompt=100, reused=0, output=10),
        record(wall=NOW + 5, session="a", prompt=200, reused=110, output=20),
        record(wall=NOW + 6, session="a", prompt=50, reused=0, output=5, side=True),
        record(wall=NOW + 7, session="a", prompt=300, reused=None, reason=Reason.EVICTED),
        record(wall=NOW - 50, session="b", root=Session("agent", "not recorded as yet")),
        record(wall=NOW, session=None),
    )
    found = sessions(store, MS - 60_000, MS + 60_000)
    assert [each["session"] for each in found] == ["a", "b"]
    assert found[0] == {
        "client": "agent",
        "session": "a",
        "turns": 3,
        "prompt": 350,
        "reused": 110,
        "context": 350,
    }
    assert [each["session"] for each in sessions(store, MS, MS + 60_000)] == ["a"]
    assert len(sessions(store, 0, MS + 60_000, limit=1)) == 1


@pytest.mark.parametrize("which", ["breaks", "slow", "errors"])
def test_a_filter_has_its_index(store, which):
    """Otherwise a page of a rare kind reads every row."""
    keep(store, *some(5))
    plan = store.connection.execute(
        f"EXPLAIN QUERY PLAN SELECT * FROM exchanges WHERE {FILTERS[which][0]} ORDER BY id DESC"
    ).fetchall()
    name = {"errors": "failed"}.get(which, which)
    assert f"exchanges_{name}" in str(plan)


@pytest.mark.parametrize("few", [0, 20_000])
def test_a_clock_that_was_ahead(store, monkeypatch, few):
    """What came while it was is found, what is asked for by time has what came since."""
    monkeypatch.setattr(module, "_FEW", few)
    day = 86_400
    keep(
        store,
        record(number=1, session="stays"),
        record(number=2, session="stays", wall=NOW + 365 * day),
        record(number=3, session="gone", wall=NOW + 365 * day),
        record(number=4, session="stays", wall=NOW + 1),
    )
    (found,) = sessions(store, MS - 60_000, MS + 60_000)
    assert (found["session"], found["turns"]) == ("stays", 3)
    page = requests(store, search="stays")["requests"]
    assert [each["number"] for each in page] == [4, 2, 1]
