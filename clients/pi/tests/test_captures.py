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
# The words that the recording put in the place of the client's, each as long as its own.
MASKED = {
    "You are an lefepi lipava rapucagul tapimeguk gatime pi, a lipava nokos fonisek.": (
        "You are an expert coding assistant operating inside pi, a coding agent harness."
    ),
    "Roguheh satedet panafomic: ": "Current working directory: ",
}


def recorded(path):
    """The requests of a capture, with the client's own words at the places that tell."""
    for one in load_capture(path):
        body = one.body
        for masked, real in MASKED.items():
            assert len(masked) == len(real)
            assert body.count(masked.encode()) == 1
            body = body.replace(masked.encode(), real.encode())
        yield one.with_body(body)


@each_capture
def test_every_turn_extends_the_one_before(path):
    """The first date stays, and the next one is told once: nothing else changes."""
    previous = None
    for one in recorded(path):
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
    for earlier, later in pairwise(recorded(path)):
        try:
            assert_extends(earlier, later)
        except AssertionError:
            parted += 1
    assert parted == ("datechange" in capture_name(path))


@each_capture
def test_all_turns_are_one_session(path):
    """Which goes by its own name."""
    assert len({session_of(one, client="pi") for one in recorded(path)}) == 1


@each_capture
def test_normalizing_twice_is_normalizing_once(path):
    """With the request before at hand."""
    previous = None
    for one in recorded(path):
        assert_idempotent(RULES, one, previous)
        previous = normalized(RULES, one, previous)
