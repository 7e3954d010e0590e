"""A recorded session of Continue's CLI: every turn extends the one before."""

from __future__ import annotations

import cacheproxy_continue
from cacheproxy_continue import CLIENT, cacheproxy_session

from cacheproxy.testing import find_captures, load_capture, normalized, parted, rules_of

RULES = rules_of(cacheproxy_continue)
(PATH,) = find_captures("continue-*.jsonl", __file__)
TURNS = load_capture(PATH)


def test_all_requests_are_its_own_and_of_one_session():
    """Although its user agent is a library's, and the system text changes three times."""
    assert all(map(CLIENT.sent, TURNS))
    assert len({one.json["messages"][0]["content"] for one in TURNS}) == 4
    assert len(set(map(cacheproxy_session, TURNS))) == 1


def test_every_turn_extends_the_one_before():
    """Over two midnights and changes in the folder, whose values are told once each."""
    assert set(parted(TURNS)) == {2, 4, 6}
    assert parted(TURNS, RULES) == {}
    previous, told = None, []
    for turn in TURNS:
        previous = normalized(RULES, turn, previous)
        told.append([previous.body.count(text) for text in (b"date is now", b"status is now")])
    assert told == [[0, 0], [0, 0], [1, 1], [1, 1], [1, 2], [1, 2], [2, 2]]
    assert previous.json["messages"][0] == TURNS[0].json["messages"][0]
