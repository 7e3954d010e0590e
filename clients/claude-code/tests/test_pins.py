"""Dates, months and git status keep the session's first value, and the new one is told once."""

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

PINS = [rule for rule in RULES if rule.name.startswith("claude-pin-")]
REMINDER = (
    "<system-reminder>\nAs you answer:\n# claudeMd\nrules\n# currentDate\n"
    "Today's date is {}.\n\n      IMPORTANT: maybe.\n</system-reminder>\n\n"
)
GIT = (
    "\nYou are an agent.\n\ngitStatus: This is the git status at the start of the conversation. "
    "It will not update.\n\nCurrent branch: {0}\n\nStatus:\n{0}\n\nRecent commits:\nda13cb1 {0}"
)
BARE = "CWD: /home/me\nDate: {}"
SEARCH = "Search the web.\n\n- The current month is {} — use this when searching.\n- US only."
DATE = "Today's date is now {}."
STATUS = (
    "The git status is now:\n\nCurrent branch: {0}\n\nStatus:\n{0}\n\nRecent commits:\nda13cb1 {0}"
)
MONTH = "The current month is now {}."


def text(value):
    return {"type": "text", "text": value}


def turns(said, *, translated):
    """What user and model said in turns: blocks, or where a translator has been texts."""
    roles = ("user", "assistant")
    return [
        {"role": roles[i % 2], "content": one if translated else [text(part) for part in one]}
        for i, one in enumerate(["".join(one) for one in said] if translated else said)
    ]


def with_reminder(value, said, *, translated=False):
    return request(
        {"messages": turns([[REMINDER.format(value), *said[0]], *said[1:]], translated=translated)}
    )


def with_git(value, said, *, translated=False):
    return with_system(("You are Claude.", GIT.format(value)), said, translated=translated)


def with_date(value, said, *, translated=False):
    return with_system((BARE.format(value),), said, translated=translated)


def with_system(system, said, *, translated):
    messages = turns(said, translated=translated)
    if translated:
        first = {"role": "system", "content": "\n".join(system)}
        return request({"messages": [first, *messages]}, "/v1/chat/completions")
    return request({"system": [text(one) for one in system], "messages": messages})


def with_month(value, said, *, translated=False):
    tool = {"name": "WebSearch", "description": SEARCH.format(value)}
    other = {"name": "mcp__x", "description": SEARCH.format("May 2020")}
    tools = [{"function": one} if translated else one for one in (tool, other)]
    path = "/v1/chat/completions" if translated else "/v1/messages"
    return request({"tools": tools, "messages": turns(said, translated=translated)}, path)


CASES = [
    ("claude-pin-current-date", with_reminder, "2026-11-21", "2026-11-22", DATE),
    ("claude-pin-git-status", with_git, "main", "topic\n M a.py", STATUS),
    ("claude-pin-date", with_date, "2026-11-21", "2026-12-03", DATE),
    ("claude-pin-month", with_month, "November 2026", "December 2026", MONTH),
]


@pytest.mark.parametrize("translated", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_the_first_value_stays_and_the_new_one_is_told_once(case, translated):
    """Behind what the user says next, and there in all later turns; nothing else changes."""
    name, build, first, later, note = case
    rules = [rule_named(RULES, name)]
    assert rules[0].default
    told = f"<system-reminder>\n{note.format(later)}\n</system-reminder>"
    said = [["hi"], ["ho"], ["next"], ["so"], ["and"]]
    seen = [["hi"], ["ho"], ["next", f"\n\n{told}" if translated else told], ["so"], ["and"]]
    previous = build(first, said[:1], translated=translated)
    assert_untouched(rules, previous)
    for count in (3, 5):
        asked = build(later, said[:count], translated=translated)
        with pytest.raises(AssertionError):
            assert_extends(previous, asked)
        assert_idempotent(rules, asked, previous)
        sent = normalized(rules, asked, previous)
        assert sent.json == build(first, seen[:count], translated=translated).json
        assert_extends(previous, sent)
        previous = sent


def test_git_status_ends_where_another_section_starts():
    rules = [rule_named(RULES, "claude-pin-git-status")]
    said = turns([["hi"], ["ho"], ["next"]], translated=True)

    def body(status, memory, messages=said):
        return request(
            {"system": GIT.format(status) + f"\n\n# Memory\n{memory}", "messages": messages}
        )

    sent = normalized(rules, body("topic", "new"), body("main", "old", said[:1]))
    assert sent.json["system"] == body("main", "new").json["system"]
    assert "Memory" not in sent.json["messages"][-1]["content"]
    assert STATUS.format("topic") in sent.json["messages"][-1]["content"]


@pytest.mark.parametrize(
    "quote",
    [
        "Look: " + REMINDER.format("2026-11-22"),
        "# currentDate\nToday's date is 2026-11-22.\n",
        "<system-reminder>\nx\n</system-reminder>\n# currentDate\nToday's date is 2026-11-22.\n",
        "x\n" + BARE.format("2026-11-22"),
        GIT.format("topic"),
        SEARCH.format("December 2026"),
        f"<system-reminder>\n{DATE.format('2026-11-22')}\n</system-reminder>",
    ],
)
def test_what_a_user_quotes_stays(quote):
    assert len(PINS) == 4
    result = {"type": "tool_result", "tool_use_id": "1", "content": quote}
    for content in (quote, [text(quote)], [result, text(quote)]):
        later = request(
            {
                "messages": [
                    {"role": role, "content": content} for role in ("user", "assistant", "user")
                ],
                "tools": [{"name": "mine", "description": quote}],
            }
        )
        body = later.body.replace(b"2026-11-22", b"2026-11-21").replace(b"topic", b"main")
        earlier = request(body.replace(b"December", b"November"))
        assert_untouched(PINS, later, earlier)
