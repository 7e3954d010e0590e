"""What a page asks for, in each window: the same sums, whatever they are made of."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.totals.store import tidy
from cacheproxy.totals.windows import (
    WINDOWS,
    breaks,
    groups,
    last_break,
    lifetime,
    overview,
    routed,
)

from .builders import MS, NOW, URL, keep, record, store_in

BROKE = {"verdict": Judgement.BREAK, "reason": Reason.MESSAGES_CHANGED, "lost_ms": 2000}


@pytest.mark.parametrize("name", WINDOWS)
def test_sums_and_series(store, name):
    """Nothing of a window without anything."""
    nothing = overview(store, name, MS)
    assert nothing["sums"]["first_median"] is nothing["sums"]["prefill_speed"] is None
    assert nothing["series"] == breaks(store, name, MS) == []
    keep(
        store,
        record(wall=NOW, first_ms=200, spared=500, spared_ms=3_250),
        record(wall=NOW - 200, first_ms=400, failed=True, status=500),
        record(wall=NOW - 400, first_ms=38_100, shape="date", lost=700, **BROKE),
        record(wall=NOW - 401, prompt=None, reused=None, evaluated=None, prompt_ms=None),
        record(wall=NOW - 60 * 86_400),
        record(wall=NOW + 60 * 86_400),
    )
    found = overview(store, name, MS)
    sums = found["sums"]
    assert (sums["requests"], sums["turns"], sums["errors"], sums["breaks"]) == (4, 4, 1, 1)
    assert (sums["prompt"], sums["reused"], sums["evaluated"], sums["output"]) == (
        3000,
        2700,
        300,
        200,
    )
    assert (sums["lost"], sums["spared"]) == (700, 500)
    assert (sums["spared_seconds"], sums["unpriced"]) == (3.25, 0)
    assert sums["prefill_speed"] == 200
    assert sums["generation_speed"] == 25
    assert sums["first_worst"] == 38.1
    assert sums["first_median"] == pytest.approx(0.5, rel=0.25)
    assert sums["added"] == pytest.approx(0.002)
    assert sum(each["requests"] for each in found["series"]) == 4
    assert all(found["start"] <= each["at"] < found["end"] for each in found["series"])
    assert found["start"] <= NOW < found["end"]
    assert (found["end"] - found["start"]) * 1000 == WINDOWS[name].length
    json.dumps(found)


def test_the_median_is_exact_in_the_shortest_window(store):
    keep(store, *(record(first_ms=wait) for wait in (100, 250, 9000)))
    assert overview(store, "15m", MS)["sums"]["first_median"] == 0.25
    assert overview(store, "1h", MS)["sums"]["first_median"] == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("name", WINDOWS)
def test_why_the_cache_broke(store, name):
    """The dearest first, with the latest of each to look at; what runs beside does not count."""
    keep(
        store,
        record(number=1, shape="date", place="/system", lost=10, **BROKE),
        record(number=2, shape="date", place="/messages/0", lost=20, session="later", **BROKE),
        record(number=3, reason=Reason.EVICTED, lost=900, lost_ms=None),
        record(number=4, shape="date", lost=5000, side=True, **BROKE),
    )
    assert breaks(store, name, MS) == [
        {
            "reason": "evicted",
            "shape": None,
            "count": 1,
            "lost": 900,
            "share": 0.225,
            "seconds": 0.0,
            "place": None,
            "number": 3,
        },
        {
            "reason": "messages_changed",
            "shape": "date",
            "count": 2,
            "lost": 30,
            "share": 0.0075,
            "seconds": 4.0,
            "place": "/messages/0",
            "number": 2,
        },
    ]


@pytest.mark.parametrize("name", WINDOWS)
def test_short_answers_tell_no_speed_and_bend_none(store, name):
    """An answer of one token is timed at a microsecond, 25 new tokens take as long as one.

    Speeds are tokens by their time, not means of speeds.
    """
    short = record(output=1, output_ms=0, evaluated=25, prompt_ms=500)
    keep(store, *[short] * 100)
    sums = overview(store, name, MS)["sums"]
    assert (sums["prefill_speed"], sums["generation_speed"]) == (None, None)
    keep(store, record(), record(output=500, output_ms=1000))
    sums = overview(store, name, MS)["sums"]
    assert (sums["prefill_speed"], sums["generation_speed"]) == (200, pytest.approx(550 / 3))


def steps_of(store, question):
    """What SQLite does to answer ``question``, in tens of its instructions."""
    count = 0

    def more():
        nonlocal count
        count += 1

    store.connection.set_progress_handler(more, 10)
    question()
    store.connection.set_progress_handler(None, 0)
    return count


def test_what_was_before_the_window_costs_nothing(store):
    """Of an upstream that is gone, too."""
    keep(store, *(record(wall=NOW - 60 * at, number=at) for at in range(60)))

    def steps():
        tidy(store, MS)
        return steps_of(store, lambda: (overview(store, "1h", MS), lifetime(store)))

    before = steps()
    keep(store, *(record(wall=NOW - 7200 - 60 * at) for at in range(1500)))
    keep(store, *(record(wall=NOW - 9000 - 60 * at, upstream="http://gone") for at in range(900)))
    assert steps() < 1.2 * before


DATED = BROKE | {"shape": "date", "lost": 700}


@pytest.mark.parametrize("name", WINDOWS)
def test_each_group_has_its_own(store, name):
    """What a side request lost is no break; nobody knows the client of a request without one."""
    keep(
        store,
        record(**DATED),
        record(side=True, **DATED),
        record(client="other", session="b", model=None, prompt=None, reused=None, evaluated=None),
        record(session=None, model=None, upstream="http://else", prompt=10, reused=0, evaluated=10),
        record(wall=NOW - 60 * 86_400, client="gone"),
    )
    found = groups(store, name, MS)
    sums = {"requests": 2, "prompt": 2000, "reused": 1800, "evaluated": 200}
    main = sums | {"lost": 700, "seconds": 2.0}
    none = {"requests": 1, "prompt": 0, "reused": 0, "evaluated": 0, "lost": 0, "seconds": 0.0}
    assert found["client"] == [{"name": "agent", **main}, {"name": "other", **none}]
    assert found["model"] == [{"name": "asked-for", **main}]
    urls = {each["name"]: each["requests"] for each in found["upstream"]}
    assert urls == {URL: 3, "http://else": 1}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_last_break(store, name):
    assert last_break(store, name, MS) is None
    keep(store, record(number=7, wall=NOW - 1, **DATED), record(number=8), record(**DATED, side=1))
    assert last_break(store, name, MS) == {
        "number": 7,
        "at": NOW - 1,
        "client": "agent",
        "session": "3f9a",
        "turn": 2,
        "reason": "messages_changed",
        "phrase": "An earlier message changed (date)",
        "lost": 700,
        "lost_seconds": 2.0,
        "cure": True,
    }
    assert last_break(store, name, MS + 60 * 86_400_000) is None


def test_a_break_of_another_run_has_no_number_and_no_cure(store):
    keep(store, record(**DATED))
    store.first = 2
    found = last_break(store, "1h", MS)
    assert (found["number"], found["cure"]) == (None, False)
    keep(store, record(**DATED | {"reason": Reason.EVICTED, "shape": None}))
    found = last_break(store, "1h", MS)
    assert (found["number"], found["cure"]) == (1, False)
    assert found["phrase"] == "The server had dropped the earlier prompt"


OTHER = "http://other:1"


def test_sums_by_upstream_and_route(tmp_path):
    """Over all restarts; where there is one upstream, there are none."""
    store = store_in(tmp_path)
    keep(store, record())
    assert routed(store) == []
    keep(
        store,
        record(route="work", price=0.5),
        record(route="work", price=0.25),
        record(route="", upstream=OTHER, reused=None, evaluated=None),
    )
    first, second = routed(store)
    assert first == {
        "upstream": URL,
        "route": "work",
        "requests": 2,
        "prompt": 2000,
        "reused": 1800,
        "price": pytest.approx(0.75),
    }
    assert (second["upstream"], second["route"], second["reused"]) == (OTHER, "", 0)
    store.connection.close()
    assert routed(store_in(tmp_path)) == [first, second]
