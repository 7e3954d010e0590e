"""What Qwen Code's rules touch, and what stays: users' words, files, other clients."""

import cacheproxy_qwen_code
import pytest
from cacheproxy_qwen_code import CLIENT, cacheproxy_session

from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    assert_untouched,
    from_another,
    normalized,
    request,
    rule_named,
    rules_of,
)

RULES = rules_of(cacheproxy_qwen_code)
AGENT = {"User-Agent": "QwenCode/0.24.4 (linux; x64)"}
GIT = (
    "Git snapshot at conversation start. It may become stale.\n```text\n"
    "git: Current branch: main\ngit: Status:\ngit: {}\ngit: Recent commits:\ngit: 1234567 {}\n```"
)
CONTEXT = (
    "<system-reminder>\nThis is the Qwen Code. We are setting up the context for our chat.\n"
    "Today's date is {}.\nMy operating system is: linux\n"
    "I'm currently working in the directory: /home/me\n"
    "Here is the folder structure of the current working directories:\n\n"
    "Showing up to 20 items:\n\n/home/me/\n├───{}\n└───.git/...\n</system-reminder>"
)
DATE = "<system-reminder>\nThe current date is: {}. Note: It is so.\n</system-reminder>"
NOTES = tuple(
    f"<system-reminder>\n{beginning}"
    for beginning in (
        "The git snapshot is now:",
        "Today's date is now ",
        "The folder structure is ",
    )
)
MONDAY, TUESDAY = "Monday, November 23, 2026", "Tuesday, November 24, 2026"
IDENTITY = "You are Qwen Code, a CLI agent."


def turn(*users, day=MONDAY, file="a.py", status="(clean)", headers=AGENT):
    """As sent after ``--resume``: the reminder of the date is in the last message alone."""
    system = f"{IDENTITY}\n\n{GIT.format(status, file)}\n\n---\n\n# auto memory"
    messages = [{"role": "system", "content": system}]
    for number, text in enumerate(users):
        given = [CONTEXT.format(day, file)] if number == 0 else []
        given += [DATE.format(day)] if number == len(users) - 1 else []
        blocks = [{"type": "text", "text": one} for one in (*given, text)]
        messages += [{"role": "user", "content": blocks}, {"role": "assistant", "content": "Done."}]
    return request({"messages": messages[:-1]}, "/v1/chat/completions", headers)


def typed(one):
    """The users' texts: the last block of each message, but for notes."""
    users = [message["content"] for message in one.json["messages"] if message["role"] == "user"]
    texts = [[block["text"] for block in content] for content in users]
    return [[text for text in blocks if not text.startswith(NOTES)][-1] for blocks in texts]


def test_a_session_resumed_the_next_day_goes_on():
    """Another date, another file, another commit: all of what was sent before stays."""
    first = turn("hello")
    later = turn("hello", "again", day=TUESDAY, file="b.py", status="M b.py")
    assert_extends(first, later, RULES)
    sent = normalized(RULES, first)
    assert sent.body == first.body
    assert_extends(normalized(RULES, later, sent), turn("hello", "again", "more"), RULES)


@pytest.mark.parametrize(
    "quoted", [GIT.format("x", "y"), CONTEXT.format(TUESDAY, "x"), DATE.format(TUESDAY)]
)
@pytest.mark.parametrize("around", ["{}", "Look:\n{}", "{}\nwhat is this?", "```\n{}\n```"])
def test_what_a_user_quotes_stays(quoted, around):
    """Typed, returned by a tool, or kept in a file: it is not the client's."""
    text = around.format(quoted)
    first, later = turn("hello", text), turn("hello", text, text, day=TUESDAY)
    before = normalized(RULES, first)
    after = normalized(RULES, later, before)
    assert typed(after) == ["hello", text, text]
    assert_idempotent(RULES, later, before)


def test_a_file_that_quotes_the_git_status_stays():
    """The client's own is the last."""
    first, later = turn("hello", status="old"), turn("hello", "again", status="new")
    quoted = [
        GIT.format("old", "x").replace("\n", "\\n"),
        GIT.format("new", "x").replace("\n", "\\n"),
    ]
    first, later = (
        one.with_text(one.body.decode().replace(IDENTITY, f"{IDENTITY}\\n\\n{file}"))
        for one, file in zip((first, later), quoted, strict=True)
    )
    system = normalized(RULES, later, first).json["messages"][0]["content"]
    assert [system.count(f"git: {one}\n") for one in ("old", "new")] == [1, 1]
    assert system.index("git: new\n") < system.index("git: old\n")


def test_a_message_that_was_edited_gets_no_reminder():
    first = turn("hello", "again")
    later = turn("hello", "once more", "and more")
    after = normalized(RULES, later, first)
    assert [len(one["content"]) for one in after.json["messages"][1::2]] == [2, 1, 2]


def test_a_user_who_says_just_what_a_reminder_says_has_it_once():
    """Behind the client's own, and before the notes, which come back where they were."""
    text = DATE.format(TUESDAY)
    turns = (
        turn("hello"),
        turn("hello", text, day=TUESDAY),
        turn("hello", text, "on", day=TUESDAY),
    )
    previous = None
    for one in turns:
        current = normalized(RULES, one, previous)
        assert_idempotent(RULES, one, previous)
        if previous is not None:
            assert_extends(previous, current)
        previous = current
    assert typed(current) == ["hello", text, "on"]


def test_another_client_may_say_the_same():
    for agent in ("opencode/1.2", "claude-cli/2.1"):
        first, later = (
            from_another(turn(*texts, day=day, headers={"User-Agent": agent}))
            for texts, day in ((["hello"], MONDAY), (["hello", "again"], TUESDAY))
        )
        assert_untouched(RULES, later, first)
    assert CLIENT.sent(turn("hello", headers={"User-Agent": "litellm/1.80"}))


def test_a_session_is_told_by_folder_and_first_words():
    """Neither the date nor what the client puts before the user's words is part of it."""
    session = cacheproxy_session(turn("hello"))
    assert cacheproxy_session(turn("hello", "again", day=TUESDAY, file="b.py")) == session
    assert cacheproxy_session(turn("bye")) != session
    assert cacheproxy_session(request({"messages": []}, headers=AGENT)) is None


def test_a_folder_tree_is_read_but_once():
    """However much of it is blank: else this takes hours."""
    later = turn("hello", "again", file=" " * 100_000 + "x")
    assert_untouched([rule_named(RULES, "qwen-pin-folders")], later, turn("hello"))
