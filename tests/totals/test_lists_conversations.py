"""Conversations and their turns, as pages ask for them."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.totals.lists import conversation, conversations

from .builders import MS, NOW, URL, keep, record

BREAK = {"verdict": Judgement.BREAK, "reason": Reason.SYSTEM_CHANGED, "lost": 700, "lost_ms": 350}


def names(page):
    return [each["session"] for each in page["conversations"]]


def test_what_one_did(store):
    """Its sums are those of its requests; a side request is in them, but is no turn."""
    keep(
        store,
        record(spared=80, spared_ms=40),
        record(wall=NOW + 1, **BREAK, equal=300, prompt=1100, reused=300, evaluated=800, turn=3),
        record(wall=NOW + 2, side=True, prompt=50, reused=0, evaluated=50, turn=1),
    )
    page = conversations(store, "30d", MS)
    assert page["conversations"] == [
        {
            "id": "agent/3f9a",
            "client": "agent",
            "session": "3f9a",
            "model": "asked-for",
            "upstream": URL,
            "first": NOW,
            "last": NOW + 2,
            "turns": 2,
            "side": 1,
            "reused": 1200,
            "evaluated": 950,
            "saved": 80,
            "saved_seconds": 0.04,
            "breaks": 1,
            "lost": 700,
            "lost_seconds": 0.35,
            "root": None,
            "branches": 0,
            "context": 1100,
            "recent": [1000, 1100],
        }
    ]
    assert (page["next"], page["count"]) == (None, 1)


def test_what_nobody_measured_is_not_known(store):
    keep(store, record(reused=None, evaluated=None, spared=None, spared_ms=None))
    keep(store, record(session="other", spared=9, spared_ms=None))
    other, unmeasured = conversations(store, "30d", MS)["conversations"]
    assert (unmeasured["saved"], unmeasured["saved_seconds"]) == (None, None)
    assert (other["saved"], other["saved_seconds"]) == (9, None)


def test_pages_follow_one_another(store):
    """Also where many ended at the same moment."""
    keep(store, *(record(session=f"s{number}", wall=NOW + number // 60) for number in range(120)))
    seen, before = [], ""
    while before is not None:
        page = conversations(store, "30d", MS, before=before)
        seen += names(page)
        before = page["next"]
        assert page["count"] == 120
    assert sorted(seen) == sorted(f"s{number}" for number in range(120))
    assert seen[0] == "s119"


def test_the_dearest_come_first(store):
    keep(store, record(session="cheap", wall=NOW + 1), record(session="dear", **BREAK))
    assert names(conversations(store, "30d", MS, sort="cost")) == ["dear", "cheap"]
    assert names(conversations(store, "30d", MS)) == ["cheap", "dear"]
    with pytest.raises(KeyError):
        conversations(store, "30d", MS, sort="size")
    with pytest.raises(ValueError, match="x"):
        conversations(store, "30d", MS, before="x-1")


def test_the_window_and_the_search_choose(store):
    keep(
        store,
        record(session="old", wall=NOW - 3600),
        record(session="late", wall=NOW + 9e6),
        record(session="100%", client="cli_ent"),
    )
    assert names(conversations(store, "15m", MS)) == ["100%"]
    for search, found in (
        ("0%", 1),
        ("li_e", 1),
        ("ent/10", 1),
        ("%d", 0),
        ("ASKED", 2),
        ("host:8080", 2),
    ):
        assert conversations(store, "30d", MS, search=search)["count"] == found


def test_turns_have_their_parts_and_say_what_they_are(store):
    keep(
        store,
        record(number=1, turn=1, verdict=Judgement.COLD, rules="a,b"),
        record(number=2, turn=0, failed=True, status=400, verdict=None, tools=None),
        record(number=3, **BREAK, equal=300, rendered="system first"),
        record(number=4, turn=1, side=True),
        record(number=5, turn=3, verdict=Judgement.COMPACTED),
        record(number=6, turn=0),  # tokens were counted, say
    )
    found = conversation(store, "agent/3f9a")
    assert [turn["kind"] for turn in found["turns"]] == [
        "turn", "failed", "turn", "side", "compacted"
    ]  # fmt: skip
    first, failed, broke, *_ = found["turns"]
    assert first["parts"] == {
        "tools": 100, "system": 200, "history": 400, "thinking": 50, "last": 250
    }  # fmt: skip
    assert (first["order"][0], broke["order"][0]) == ("tools", "system")
    assert (first["number"], first["at"]) == (1, NOW)
    assert (failed["parts"], failed["status"]) == (None, 400)
    assert (broke["reason"], broke["breaks_at"], broke["lost"]) == ("system_changed", 300, 700)
    assert found["conversation"] == conversations(store, "30d", MS)["conversations"][0]
    assert conversation(store, "agent/nobody") is None


def test_subagents_are_branches_of_their_root(store):
    """Also one whose root has not been recorded as yet."""
    root = Session("agent", "main/1")
    keep(store, record(session="sub", root=root), record(session="deep", root=root))
    assert names(conversations(store, "30d", MS)) == ["deep", "sub"]
    keep(store, record(session="main/1", wall=NOW + 1))
    main, *others = conversations(store, "30d", MS)["conversations"]
    assert (main["branches"], main["root"]) == (2, None)
    assert {each["root"] for each in others} == {"agent/main/1"}
    branches = conversation(store, "agent/main/1")["branches"]
    assert sorted(each["conversation"]["session"] for each in branches) == ["deep", "sub"]
    assert [len(each["turns"]) for each in branches] == [1, 1]


def test_a_long_one_comes_in_pages(store):
    keep(store, *(record(number=number, turn=number) for number in range(1, 451)))
    late = conversation(store, "agent/3f9a")
    assert [late["turns"][0]["turn"], late["turns"][-1]["turn"]] == [51, 450]
    early = conversation(store, "agent/3f9a", late["next"])
    assert [turn["turn"] for turn in early["turns"]] == list(range(1, 51))
    assert early["next"] is None
    assert late["conversation"]["recent"] == [1000] * 24
