"""LibreChat's special variables, as its sources write them; no real traffic was recorded."""

from __future__ import annotations

from functools import partial

import cacheproxy_librechat
import pytest

from cacheproxy.core.conversation.session import session_of
from cacheproxy.testing import (
    assert_told_once,
    assert_untouched,
    conversation,
    normalized,
    rules_of,
)

RULES = rules_of(cacheproxy_librechat)
HEADER = {"X-LibreChat-Session-Id": "5db5fafd"}
VALUES = {
    "date": ("2026-11-22 (Sunday)", "2026-11-23 (Monday)"),
    "old date": ("2026-11-22 (0)", "2026-11-23 (1)"),
    "time": ("2026-11-22 14:03:59 +01:00 (Sunday)", "2026-11-22 14:05:01 +01:00 (Sunday)"),
    "old time": ("2026-11-22 14:03:59 (0)", "2026-11-22 14:05:01 (0)"),
    "iso": ("2026-11-22T13:03:59.000Z", "2026-11-22T13:05:01.123Z"),
}
ONCE, MANY = "You are kind. Today is {}. Be brief.", "{0}: be kind on {0}. ISO: {0}"


def turn(value, *said, headers=HEADER, system=ONCE):
    return conversation("/v1/chat/completions", system.format(value), *said, headers=headers)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("system", [ONCE, MANY])
def test_the_first_value_stays(kind, system):
    """Wherever in the instructions it stands, and however often."""
    first, later = (partial(turn, value, system=system) for value in VALUES[kind])
    name = "date" if "date" in kind else "time"
    assert_told_once(RULES, first, later, f"The current {name} is now {VALUES[kind][1]}.")


@pytest.mark.parametrize("kind", VALUES)
def test_what_a_user_types_stays(kind):
    """Also what LibreChat has put into a user's message: it is sent once."""
    first, later = VALUES[kind]
    sent = normalized(RULES, turn(first, first, "Done.", later), turn(first, first))
    assert [one["content"] for one in sent.json["messages"][1::2]] == [first, later]


def test_without_the_header_nobody_is_told():
    """Any other program may have such a date in its instructions."""
    first, later = VALUES["date"]
    assert_untouched(RULES, turn(later, "hello", headers={}), turn(first, "hello", headers={}))


def test_the_header_names_the_session():
    """As any header ``x-…-session-id`` does."""
    assert session_of(turn("", "hello")).id == "5db5fafd"
