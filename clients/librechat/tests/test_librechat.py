"""LibreChat's special variables, as its sources write them; no real traffic was recorded."""

from __future__ import annotations

import cacheproxy_librechat
import pytest

from cacheproxy.core.conversation.session import session_of
from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    assert_untouched,
    normalized,
    request,
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


def turn(value, *users, headers=HEADER, system="You are kind. Today is {}. Be brief."):
    messages = [{"role": "system", "content": system.format(value)}]
    for text in users:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "Done."}]
    return request({"messages": messages[:-1]}, "/v1/chat/completions", headers)


@pytest.mark.parametrize("kind", VALUES)
def test_the_first_value_stays(kind):
    """Wherever in the instructions it stands, and however often."""
    first, later = VALUES[kind]
    assert_extends(turn(first, "hello"), turn(later, "hello", "again"), RULES)
    after = normalized(RULES, turn(later, "hello", "again"), turn(first, "hello"))
    name = "date" if "date" in kind else "time"
    told = f"<system-reminder>\nThe current {name} is now {later}.\n</system-reminder>"
    assert after.json["messages"][-1]["content"] == f"again\n\n{told}"
    many = "{0}: be kind on {0}. ISO: {0}"
    earlier = turn(first, "hello", system=many)
    assert_extends(earlier, turn(later, "hello", "again", system=many), RULES)
    assert_idempotent(RULES, turn(later, "hello", "again", system=many), earlier)


@pytest.mark.parametrize("kind", VALUES)
def test_what_a_user_types_stays(kind):
    """Also what LibreChat has put into a user's message: it is sent once."""
    first, later = VALUES[kind]
    sent = normalized(RULES, turn(first, first, later), turn(first, first))
    assert [one["content"] for one in sent.json["messages"][1::2]] == [first, later]


def test_without_the_header_nobody_is_told():
    """Any other program may have such a date in its instructions."""
    first, later = VALUES["date"]
    assert_untouched(RULES, turn(later, "hello", headers={}), turn(first, "hello", headers={}))


def test_the_header_names_the_session():
    """As any header ``x-…-session-id`` does."""
    assert session_of(turn("", "hello")).id == "5db5fafd"
