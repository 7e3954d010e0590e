"""Recorded Cline sessions: every turn extends the one before, over midnight too.

They were recorded within a day. For those over midnight the later turns get the next date.
"""

from __future__ import annotations

import cacheproxy_cline
import pytest
from cacheproxy_cline import CLINE

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

CAPTURES = find_captures("cline*.jsonl", __file__)
each_capture = pytest.mark.parametrize("path", CAPTURES, ids=capture_name)

RULES = rules_of(cacheproxy_cline)
DATES = (b"2. Date: 11/21/2026", b"2. Date: 11/22/2026")
NOTE = rb"\n\n<system-reminder>\nToday's date is now 11/22/2026.\n</system-reminder>"


def recorded(path, midnight=None):
    """The requests of a capture; ``midnight``: the number of the first one of the next day."""
    for number, one in enumerate(load_capture(path)):
        assert one.body.count(DATES[0]) == 1
        is_later = midnight is not None and number >= midnight
        yield one.with_body(one.body.replace(*DATES)) if is_later else one


@each_capture
@pytest.mark.parametrize("midnight", [None, 1, 2, 3])
def test_every_turn_extends_the_one_before(path, midnight):
    """The first date stays, and the next one is told once: nothing else changes."""
    previous = None
    for one in recorded(path, midnight):
        assert CLINE.sent(one)
        current = normalized(RULES, one, previous)
        assert current.body.count(NOTE) <= (DATES[1] in one.body)
        assert current.body.replace(NOTE, b"") == one.body.replace(*DATES[::-1])
        if previous is not None:
            assert_extends(previous, current)
        previous = current
    users = [message["role"] == "user" for message in previous.json["messages"]]
    is_told = midnight is not None and (sum(users) > 1)
    assert previous.body.count(NOTE) == is_told


@each_capture
def test_without_the_rule_midnight_parts_the_turns(path):
    """The first one of the next day."""
    first, later, *_ = recorded(path, midnight=1)
    with pytest.raises(AssertionError, match=r"became '[^']*11/22"):
        assert_extends(first, later)


@each_capture
def test_all_turns_are_one_session(path):
    """Which goes by its own name."""
    assert len({session_of(one, client="cline") for one in recorded(path, midnight=1)}) == 1


@each_capture
def test_normalizing_twice_is_normalizing_once(path):
    """With the request before at hand."""
    previous = None
    for one in recorded(path, midnight=1):
        assert_idempotent(RULES, one, previous)
        previous = normalized(RULES, one, previous)
