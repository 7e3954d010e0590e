"""goose's system text, as its templates make it; no real traffic was recorded."""

from __future__ import annotations

from functools import partial

import cacheproxy_goose
import pytest
from cacheproxy_goose import CLIENT, cacheproxy_session

from cacheproxy.testing import (
    assert_told_once,
    assert_untouched,
    conversation,
    from_another,
    rules_of,
)

RULES = rules_of(cacheproxy_goose)
IDENTITIES = (
    "You are a general-purpose AI agent called goose, created by Block.\ngoose is open.\n\n",
    "You are a general-purpose AI agent called Goose, created by Block. Goose is open.\n\n",
)
DATE = "The current date is {}.\n"
DAYS = ("2026-11-23 09:00", "2026-11-23 10:00", "2026-11-23", "2026-11-23 09:15:01")


def turn(*said, day=DAYS[0], identity=IDENTITIES[0], headers=None):
    system = f"{identity}{DATE.format(day)}\ngoose uses LLM providers.\n"
    return conversation("/v1/chat/completions", system, *said, headers=headers)


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("day", DAYS)
def test_a_session_resumed_in_another_hour_goes_on(identity, day):
    """The date of the first turn stays, however precise it is."""
    first, later = (partial(turn, identity=identity, day=one) for one in ("2026-11-22 23:00", day))
    assert_told_once(RULES, first, later, f"The current date is now {day}.")


@pytest.mark.parametrize("quoted", [DATE, "\n" + DATE, "".join((IDENTITIES[0], DATE))])
def test_what_a_user_quotes_stays(quoted):
    """The date counts right behind the beginning of the system text alone."""
    first, later = (quoted.format(day) for day in DAYS[:2])
    sent = turn(first, "Done.", later, identity=f"{IDENTITIES[0]}\n{later}")
    assert_untouched(RULES, sent, turn(first, identity=f"{IDENTITIES[0]}\n{first}"))


def test_the_beginning_of_the_system_text_tells():
    """Of subagents, too; not where another client says its name."""
    assert CLIENT.sent(turn("hi"))
    subagent = "You are a specialized subagent within the goose AI framework"
    assert CLIENT.sent(turn("hi", identity=subagent))
    assert not CLIENT.sent(turn("hi", identity="Be kind.\n\n"))
    assert not CLIENT.sent(from_another(turn("hi", headers={"User-Agent": "opencode/1.2"})))


def test_the_session_is_that_of_the_header():
    """None without it: then the prompt tells, as for any client."""
    named = turn("hello", headers={"agent-session-id": "20261122_7"})
    assert cacheproxy_session(named) == "20261122_7"
    assert cacheproxy_session(turn("hello")) is None
