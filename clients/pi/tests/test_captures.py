"""Recorded pi sessions: every turn extends the one before, over midnight too."""

from __future__ import annotations

from itertools import pairwise

import cacheproxy_pi
import pytest
from cacheproxy_pi import PI

from cacheproxy.core.conversation.session import session_of
from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    capture_name,
    find_captures,
    load_capture,
    normalized,
    rules_of,
)

CAPTURES = find_captures("pi-*.jsonl", __file__)
each_capture = pytest.mark.parametrize("path", CAPTURES, ids=capture_name)

RULES = rules_of(cacheproxy_pi)
FIRST, LATER = b"Current date: 2026-11-21", b"Current date: 2026-11-22"
NOTE = (
    b',{"type":"text","text":"<system-reminder>'
    rb"\nToday's date is now 2026-11-22.\n</system-reminder>"
    b'"}'
)


@each_capture
def test_every_turn_extends_the_one_before(path):
    """The first date stays, and the next one is told once: nothing else changes."""
    previous = None
    for one in load_capture(path):
        assert PI.sent(one)
        current = normalized(RULES, one, previous)
        assert current.body.count(NOTE) == (LATER in one.body)
        assert current.body.replace(NOTE, b"") == one.body.replace(LATER, FIRST)
        if previous is not None:
            assert_extends(previous, current)
        previous = current


@each_capture
def test_without_the_rule_midnight_parts_the_turns(path):
    """One pair of those recorded over midnight; of the others none."""
    parted = 0
    for earlier, later in pairwise(load_capture(path)):
        try:
            assert_extends(earlier, later)
        except AssertionError:
            parted += 1
    assert parted == ("datechange" in capture_name(path))


@each_capture
def test_all_turns_are_one_session(path):
    """Which goes by its own name."""
    assert len({session_of(one, client="pi") for one in load_capture(path)}) == 1


@each_capture
def test_normalizing_twice_is_normalizing_once(path):
    """With the request before at hand."""
    previous = None
    for one in load_capture(path):
        assert_idempotent(RULES, one, previous)
        previous = normalized(RULES, one, previous)
