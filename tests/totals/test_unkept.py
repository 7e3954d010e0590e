"""The last exchanges in memory answer what the totals on disk would."""

from __future__ import annotations

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.totals.lists import requests, sessions
from cacheproxy.totals.windows import overview
from tests.observe.exchanges import body, exchange
from tests.web.sample import NOW, Shown


def turns(count, **changes):
    usage = Usage(prompt=1000, reused=900, output=10)
    return [
        exchange(body("a"), usage=usage, number=number, wall=NOW - count + number, **changes)
        for number in range(1, count + 1)
    ]


def asked(shown, question, *arguments, **more):
    found = []
    shown.source.ask(question, *arguments, **more).addBoth(found.append)
    assert found, "it answers at once"
    return found[0]


def test_questions_of_windows_and_requests():
    shown = Shown()
    shown.finish(*turns(3))
    sums = asked(shown, overview, "1h", shown.source.now)["sums"]
    assert (sums["requests"], sums["prompt"], sums["reused"]) == (3, 3000, 2700)
    rows = asked(shown, requests, limit=2)["requests"]
    assert [row["number"] for row in rows] == [3, 2]


def test_only_the_last_are_remembered():
    """However many there were, and with them their sessions."""
    shown = Shown(most=150)
    shown.finish(*turns(100, session=None), *turns(300))
    rows = asked(shown, requests, limit=200)["requests"]
    assert 150 <= len(rows) < 250
    assert rows[0]["number"] == 300
    for number, each in enumerate(turns(300)):
        shown.finish(exchange(body("a"), session=f"s{number}", wall=each.wall))
    assert len(asked(shown, sessions, 0, 2 * shown.source.now, 200)) <= 200
    (kept,) = asked(shown, lambda store: store.rows("SELECT count(*) AS count FROM sessions"))
    assert kept["count"] < 250
