"""Recorded aider sessions: what its reminder and its files cost, and what the rules mend."""

from __future__ import annotations

import cacheproxy_aider
import pytest
from cacheproxy_aider import CLIENT, cacheproxy_session

from cacheproxy.testing import (
    assert_untouched,
    capture_name,
    find_captures,
    load_capture,
    parted,
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
    """But where files are added before it, or the mode changes. Without it, none does."""
    turns = load_capture(path)
    assert parted(turns, RULES).keys() == REAL_CHANGES.get(capture_name(path), set())
    assert list(parted(turns, DEFAULT)) == list(range(1, len(turns)))
    for turn in turns:
        assert_untouched(RULES, turn)


@each_capture
def test_all_requests_are_told_and_have_one_session(path):
    """Both edit formats, and questions; aider's own first messages are the same in all sessions."""
    turns = load_capture(path)
    assert all(CLIENT.sent(turn) for turn in turns)
    assert len({cacheproxy_session(turn) for turn in turns}) == 1
