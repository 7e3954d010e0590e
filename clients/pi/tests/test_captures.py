"""Recorded pi sessions: every turn extends the one before, over midnight too."""

from __future__ import annotations

import cacheproxy_pi
import pytest
from cacheproxy_pi import CLIENT, OMP

from cacheproxy.core.conversation.session import session_of
from cacheproxy.testing import (
    capture_name,
    find_captures,
    load_capture,
    normalized,
    parted,
    rules_of,
)

RULES = rules_of(cacheproxy_pi)
FIRST, LATER = b"Current date: 2026-11-21", b"Current date: 2026-11-22"
NOTE = (
    b',{"type":"text","text":"<system-reminder>'
    rb"\nToday's date is now 2026-11-22.\n</system-reminder>"
    b'"}'
)


@pytest.mark.parametrize("path", find_captures("pi-*.jsonl", __file__), ids=capture_name)
def test_every_turn_extends_the_one_before(path):
    """The first date stays, and the next one is told once: nothing else changes."""
    turns = load_capture(path)
    assert all(map(CLIENT.sent, turns))
    assert len({session_of(one, client="pi") for one in turns}) == 1
    assert len(parted(turns)) == ("datechange" in capture_name(path))
    assert parted(turns, RULES) == {}
    previous = None
    for one in turns:
        previous = normalized(RULES, one, previous)
        assert previous.body.count(NOTE) == (LATER in one.body)
        assert previous.body.replace(NOTE, b"") == one.body.replace(LATER, FIRST)


def test_every_turn_of_oh_my_pi_extends_the_one_before():
    """Over two midnights: the date stands in the first user message, and is told once each."""
    (path,) = find_captures("omp-*.jsonl", __file__)
    turns = load_capture(path)
    assert all(map(OMP.sent, turns))
    assert not any(map(CLIENT.sent, turns))
    assert set(parted(turns)) == {2, 5}
    assert parted(turns, RULES) == {}
    previous = None
    for one in turns:
        previous = normalized(RULES, one, previous)
    assert [previous.body.count(b"date is now 2026-11-%d" % day) for day in (22, 23)] == [1, 1]
    given, said = (one.json["messages"][1]["content"] for one in (turns[0], previous))
    assert said == given
