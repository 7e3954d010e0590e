"""A window's sums by client, model and upstream: the same from rows and from sums."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.totals.groups import groups, last_break
from cacheproxy.totals.windows import WINDOWS

from .builders import MS, NOW, URL, keep, record

BROKE = {"verdict": Judgement.BREAK, "reason": Reason.MESSAGES_CHANGED, "lost_ms": 2000}
BROKE |= {"shape": "date", "lost": 700}


@pytest.mark.parametrize("name", WINDOWS)
def test_each_group_has_its_own(store, name):
    """What a side request lost is no break; nobody knows the client of a request without one."""
    keep(
        store,
        record(**BROKE),
        record(side=True, **BROKE),
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
    keep(store, record(number=7, wall=NOW - 1, **BROKE), record(number=8), record(**BROKE, side=1))
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
    keep(store, record(**BROKE))
    store.first = 2
    found = last_break(store, "1h", MS)
    assert (found["number"], found["cure"]) == (None, False)
    keep(store, record(**BROKE | {"reason": Reason.EVICTED, "shape": None}))
    found = last_break(store, "1h", MS)
    assert (found["number"], found["cure"]) == (1, False)
    assert found["phrase"] == "The server had dropped the earlier prompt"
