"""Crush's environment block, as its templates make it; no real traffic was recorded."""

from __future__ import annotations

from functools import partial

import cacheproxy_crush
import pytest
from cacheproxy_crush import CLIENT

from cacheproxy.testing import (
    assert_told_once,
    assert_untouched,
    conversation,
    normalized,
    request,
    rules_of,
)

RULES = rules_of(cacheproxy_crush)
AGENT = {"User-Agent": "Charm-Crush/v0.96.1 (https://charm.land/crush)"}
ENV = (
    "<env>\nWorking directory: /home/me\nIs directory a git repo: yes\nPlatform: linux\n"
    "Today's date: {}\n{}\n</env>\n"
)
GIT = (
    "\n\nGit status (snapshot at conversation start - may be outdated):\n"
    "Current branch: {0}\nStatus:\n M {0}.go\nRecent commits:\n1234567 {0}\n\n"
)
IDENTITY = (
    "You are Crush, a powerful AI Assistant that runs in the CLI.\n\n<workflow>\n</workflow>\n\n"
)
FILES = '\n# Project-Specific Context\n<file path="CRUSH.md">\n{}\n</file>\n'


def turn(*said, day="11/23/2026", git="main", identity=IDENTITY, files="", headers=AGENT):
    system = identity + ENV.format(day, GIT.format(git) if git else "") + files
    return conversation("/v1/chat/completions", system, *said, headers=headers)


@pytest.mark.parametrize("identity", [IDENTITY, "You are an agent for Crush. Given the user's\n"])
def test_the_next_day_after_a_commit_goes_on(identity):
    """The date and the git status of the first turn stay."""
    first = partial(turn, identity=identity)
    later = partial(first, day="1/2/2027", git="topic")
    date = "Today's date is now 1/2/2027."
    status = (
        "The git status is now:\nCurrent branch: topic\nStatus:\n"
        " M topic.go\nRecent commits:\n1234567 topic"
    )
    between = "\n</system-reminder>\n\n<system-reminder>\n"
    assert_told_once(RULES, first, later, f"{date}{between}{status}")
    # Outside a repository, the block has no git status.
    first, later = (partial(turn, git="", day=day) for day in ("11/23/2026", "1/2/2027"))
    assert_told_once(RULES, first, later, date)


@pytest.mark.parametrize("around", ["{}", "Look:\n{}", "{}\nwhat is this?"])
def test_what_a_user_or_a_file_quotes_stays(around):
    """The client's block is the first of the system text."""
    first, later = (
        around.format("\n" + ENV.format(day, GIT.format(day))) for day in ("1/1/2027", "1/2/2027")
    )
    before = normalized(RULES, turn(first, files=FILES.format(first)))
    sent = turn(first, "Done.", later, files=FILES.format(later))
    assert normalized(RULES, sent, before).body == sent.body
    tool = {"role": "tool", "tool_call_id": "1", "content": later}
    with_tool = request({"messages": [*sent.json["messages"], tool]}, sent.target, AGENT)
    assert_untouched(RULES, with_tool, before)


def test_other_clients_may_say_the_same():
    """The user agent tells, or the first sentence behind a gateway."""
    for agent in ("opencode/1.2", "curl/8"):
        assert not CLIENT.sent(turn("hello", identity="Be kind.", headers={"User-Agent": agent}))
    assert CLIENT.sent(turn("hello", headers={"User-Agent": "litellm/1.80"}))
    assert CLIENT.sent(turn("hello", identity="Be kind."))
