"""Recorded sessions of opencode and Kilo: every turn extends the one before, over midnight too."""

from __future__ import annotations

import re

import cacheproxy_opencode
import pytest
from cacheproxy_opencode import CLIENT, KILO

from cacheproxy.core.conversation.session import parent_of, session_of
from cacheproxy.testing import (
    capture_name,
    find_captures,
    load_capture,
    normalized,
    parted,
    rules_of,
)

CAPTURES = find_captures("opencode*.jsonl", __file__)
KILOS = find_captures("kilo*.jsonl", __file__)
each_capture = pytest.mark.parametrize("path", CAPTURES + KILOS, ids=capture_name)

RULES = rules_of(cacheproxy_opencode)
DATE = re.compile(rb"  Today's date: (\w{3} \w{3} \d\d \d{4})")
NOTE = rb"<system-reminder>\nToday's date is now %s.\n</system-reminder>"
ADDED = (rb"\n\n" + NOTE, rb',{"type":"text","text":"' + NOTE + rb'"}')
"""At the end of a message that is a text, and of one that is blocks, as Kilo's are."""


def sessions(path):
    """The turns of each session and subagent; titles, which have no tools, are side requests."""
    found = {}
    for one in load_capture(path):
        if one.json.get("tools"):
            found.setdefault(session_of(one).id, []).append(one)
    return found


@each_capture
def test_every_turn_extends_the_one_before(path):
    """The first date stays, and the next one is told once: nothing else changes."""
    all_turns = sessions(path).values()
    midnights = 2 * (path in KILOS) or "datechange" in capture_name(path)
    assert sum(len(parted(turns)) for turns in all_turns) == midnights
    for turns in all_turns:
        assert parted(turns, RULES) == {}
        (first,) = DATE.findall(turns[0].body)
        added = ADDED[path in KILOS]
        previous, notes = None, []
        for one in turns:
            previous = normalized(RULES, one, previous)
            (date,) = DATE.findall(one.body)
            notes += [added % date] * (date != first and added % date not in notes)
            told = previous.body
            for note in notes:
                assert told.count(note) == 1
                told = told.replace(note, b"")
            assert told == one.body.replace(b"date: " + date, b"date: " + first)


@each_capture
def test_all_requests_are_its_own_with_and_without_its_user_agent(path):
    """But for the title, whose prompt could be anybody's."""
    for one in load_capture(path):
        plain = one.__class__(one.method, one.target, (), one.body)
        own, other = (KILO, CLIENT) if path in KILOS else (CLIENT, KILO)
        assert (own.sent(one), other.sent(one)) == (True, False)
        assert own.sent(plain) == bool(one.json.get("tools"))


def test_a_subagent_works_for_the_session_that_called_it():
    """It has a session of its own."""
    (path,) = find_captures("opencode-subagent.jsonl", __file__)
    (main, turns), (helper, helpers) = sessions(path).items()
    assert main != helper
    assert {parent_of(one, session_of(one)) for one in turns} == {None}
    assert {parent_of(one, session_of(one)).id for one in helpers} == {main}
