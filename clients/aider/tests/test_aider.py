"""What aider's rules touch, and what stays: users' words, files, other clients."""

import cacheproxy_aider
import pytest
from cacheproxy_aider import CLIENT, cacheproxy_session

from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    assert_untouched,
    normalized,
    request,
    rules_of,
)

RULES = rules_of(cacheproxy_aider)
DEFAULT = [rule for rule in RULES if rule.default]
IDENTITY = "Act as an expert software developer.\nTake requests for changes to the supplied code.\n"
PLATFORM = "- Platform: Linux\n- Shell: SHELL=/bin/bash\n- Language: English\n- Current date: {}\n"
REMINDER = "To suggest changes you MUST return the file.\n\nReply in English.\n\n"
MONDAY, TUESDAY = "2026-11-23", "2026-11-24"
NOTE = f"\n\n<system-reminder>\nToday's date is now {TUESDAY}.\n</system-reminder>"


def turn(*users, day=MONDAY, identity=IDENTITY, headers=None):
    system = f"{identity}{PLATFORM.format(day)}\n{REMINDER}"
    messages = [{"role": "system", "content": system}]
    for text in users:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "Done."}]
    messages[-2]["content"] += f"\n\n{REMINDER}"
    return request({"messages": messages[:-1]}, "/v1/chat/completions", headers)


def test_the_next_day_goes_on():
    """The date of the first turn stays; the reminder, if it is to."""
    first, later = turn("hello"), turn("hello", "again", day=TUESDAY)
    assert_extends(first, later, RULES)
    before = normalized(DEFAULT, first)
    after = normalized(DEFAULT, later, before)
    assert before.json["messages"][0] == after.json["messages"][0]
    assert_idempotent(RULES, later, before)


@pytest.mark.parametrize("quoted", [PLATFORM.format(TUESDAY), REMINDER, f"hello\n\n{REMINDER}"])
@pytest.mark.parametrize("around", ["{}", "Look:\n{}", "{}\nwhat is this?"])
def test_what_a_user_quotes_stays(quoted, around):
    """What was sent before in that message comes back; behind the last stands the date."""
    text = around.format(quoted)
    first, later = turn("hello", text), turn("hello", text, text, day=TUESDAY)
    before = normalized(RULES, first)
    after = normalized(RULES, later, before).json["messages"]
    glued = f"{text}\n\n{REMINDER}"
    assert [one["content"] for one in after[1::2]] == ["hello", glued, glued + NOTE]
    theirs = later.json["messages"][1:]
    theirs[-1] = {"role": "user", "content": glued + NOTE}
    assert normalized(DEFAULT, later, before).json["messages"][1:] == theirs


def test_the_note_and_the_reminder_stay_behind_the_same_message():
    """In the order in which they came."""
    turns = [turn("one"), turn("one", "two", day=TUESDAY), turn("one", "two", "three", day=TUESDAY)]
    previous = None
    for one in turns:
        current = normalized(RULES, one, previous)
        if previous is not None:
            assert_extends(previous, current)
        previous = current
    second = current.json["messages"][3]["content"]
    assert second == f"two\n\n{REMINDER}{NOTE}"
    assert current.body.count(b"is now") == 1


def test_a_message_that_was_edited_gets_no_reminder():
    after = normalized(RULES, turn("bye", "more"), turn("hello"))
    assert after.json["messages"][1]["content"] == "bye"


def test_other_clients_may_say_the_same():
    """Two lines at the beginning tell, but not where another client says its name."""
    for identity, agent in (("", "OpenAI/Python 2"), (IDENTITY, "opencode/1.2")):
        first, later = (
            turn("hello", day=day, identity=identity, headers={"User-Agent": agent})
            for day in (MONDAY, TUESDAY)
        )
        assert_untouched(RULES, later, first)
    assert CLIENT.sent(turn("hello"))
    assert not CLIENT.sent(turn("hello", identity="Act as an expert software developer. Be kind."))


def test_what_was_typed_may_be_a_whole_document():
    """Its paragraphs are not looked at one by one: that would take an hour."""
    text = "A paragraph.\n\n" * 500_000
    assert cacheproxy_session(turn(text)) == cacheproxy_session(turn(text, "again"))
    assert cacheproxy_session(turn(text)) != cacheproxy_session(turn(text + "More."))


def test_a_session_is_told_by_what_was_typed_first():
    """Not by the examples, which all have in common, nor by files or the reminder."""
    session = cacheproxy_session(turn("hello"))
    files = "I have *added these files to the chat* so you can go ahead and edit them.\n\na.py"
    assert cacheproxy_session(turn("hello", "again", day=TUESDAY)) == session
    assert cacheproxy_session(turn(files, "hello")) == session
    assert cacheproxy_session(turn("bye")) != session
    commit = "You are an expert software engineer that generates concise, one-line Git commit"
    assert cacheproxy_session(turn("hello", identity=commit)) is None
