"""Dates and git status keep the first value seen in the session, when switched on."""

from __future__ import annotations

import pytest
from cacheproxy_claude_code import RULES

from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    assert_untouched,
    normalized,
    request,
    rule_named,
)

REMINDER = (
    "<system-reminder>\nAs you answer:\n# claudeMd\nrules\n# currentDate\n"
    "Today's date is {}.\n\n      IMPORTANT: maybe.\n</system-reminder>\n\n"
)
GIT = (
    "\nYou are an agent.\n\ngitStatus: This is the git status at the start of the conversation. "
    "It will not update.\n\nCurrent branch: {0}\n\nStatus:\n{0}\n\nRecent commits:\nda13cb1 {0}"
)
BARE = "CWD: /home/me\nDate: {}"


def with_reminder(value):
    content = [{"type": "text", "text": REMINDER.format(value)}, {"type": "text", "text": "hi"}]
    return request({"messages": [{"role": "user", "content": content}]})


def with_git(value):
    texts = ("You are Claude.", GIT.format(value))
    return request({"system": [{"type": "text", "text": text} for text in texts]})


def with_date(value):
    return request({"system": [{"type": "text", "text": BARE.format(value)}]})


CASES = [
    ("claude-pin-current-date", with_reminder, "2026-11-21", "2026-11-22"),
    ("claude-pin-git-status", with_git, "main", "topic\n M a.py"),
    ("claude-pin-date", with_date, "2026-11-21", "2026-12-03"),
]


@pytest.mark.parametrize(("name", "build", "first", "later"), CASES)
def test_the_first_value_of_the_session_stays(name, build, first, later):
    """With a previous request the value of that one is sent; without, nothing is edited."""
    rules = [rule_named(RULES, name)]
    assert not rules[0].default
    assert_untouched(rules, build(first))
    sent = normalized(rules, build(later), build(first))
    assert sent.body == build(first).body
    assert normalized(rules, build("2027-01-01"), sent).body == build(first).body
    assert_idempotent(rules, build(later), build(first))
    assert_extends(build(first), build(later), rules)


def test_git_status_ends_where_another_section_starts():
    """A heading or a tag after the git status is not the client's git status."""
    rules = [rule_named(RULES, "claude-pin-git-status")]
    before = request({"system": GIT.format("main") + "\n\n# Memory\nold"})
    after = request({"system": GIT.format("topic") + "\n\n# Memory\nnew"})
    wanted = request({"system": GIT.format("main") + "\n\n# Memory\nnew"})
    assert normalized(rules, after, before).body == wanted.body


@pytest.mark.parametrize(
    "text",
    [
        "Look: " + REMINDER.format("2026-11-22"),
        "# currentDate\nToday's date is 2026-11-22.\n",
        "<system-reminder>\nx\n</system-reminder>\n# currentDate\nToday's date is 2026-11-22.\n",
        "x\n" + BARE.format("2026-11-22"),
        GIT.format("topic"),
    ],
)
def test_what_a_user_quotes_stays(text):
    """Outside the client's own reminder, and outside system text, nothing is pinned."""
    pins = [rule for rule in RULES if rule.needs_previous]
    assert len(pins) == 3
    for content in (text, [{"type": "text", "text": text}]):
        later = request({"messages": [{"role": "user", "content": content}]})
        body = later.body.replace(b"2026-11-22", b"2026-11-21").replace(b"topic", b"main")
        earlier = request(body)
        assert_untouched(pins, later, earlier)
