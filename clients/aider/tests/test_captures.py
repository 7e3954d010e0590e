"""Recorded aider sessions: what its reminder and its files cost, and what the rules mend."""

from __future__ import annotations

from itertools import pairwise

import cacheproxy_aider
import pytest
from cacheproxy_aider import AIDER, cacheproxy_session

from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    assert_untouched,
    capture_name,
    find_captures,
    load_capture,
    normalized,
    rules_of,
)

CAPTURES = find_captures("aider*.jsonl", __file__)
each_capture = pytest.mark.parametrize("path", CAPTURES, ids=capture_name)
RULES = rules_of(cacheproxy_aider)
DEFAULT = [rule for rule in RULES if rule.default]

# What really changes: (turns, counted from 0) files are added; questions have another system text.
REAL_CHANGES = {"aider-stdin": {2, 3, 4}}


@each_capture
def test_with_the_reminder_kept_a_turn_extends_the_one_before(path):
    """But where files are added before the conversation, or the mode changes."""
    previous = None
    for number, turn in enumerate(load_capture(path)):
        current = normalized(RULES, turn, previous)
        if previous is not None and number not in REAL_CHANGES.get(capture_name(path), ()):
            assert_extends(previous, current)
        previous = current


@each_capture
def test_without_it_each_turn_parts(path):
    """Where the last user message becomes history."""
    for earlier, later in pairwise(load_capture(path)):
        with pytest.raises(AssertionError, match="became"):
            assert_extends(earlier, later, DEFAULT)


@each_capture
def test_all_requests_are_told_and_have_one_session(path):
    """Both edit formats, and questions; aider's own first messages are the same in all sessions."""
    turns = load_capture(path)
    assert all(AIDER.sent(turn) for turn in turns)
    assert len({cacheproxy_session(turn) for turn in turns}) == 1


@each_capture
def test_normalizing_twice_is_normalizing_once(path):
    """Also with the turn before at hand; without one nothing is edited."""
    previous = None
    for turn in load_capture(path):
        assert_untouched(RULES, turn)
        assert_idempotent(RULES, turn, previous)
        previous = normalized(RULES, turn, previous)
