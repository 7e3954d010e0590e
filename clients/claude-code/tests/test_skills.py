"""The list of skills stays where it was, and what anybody else wrote stays as it is."""

import cacheproxy_claude_code
import pytest

from cacheproxy import blocks_of
from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    assert_untouched,
    find_captures,
    load_capture,
    normalized,
    parted,
    request,
    rule_named,
    rules_of,
)

RULES = rules_of(cacheproxy_claude_code)
KEEP = [rule_named(RULES, "claude-keep-skills")]
AGENT = {"User-Agent": "claude-cli/2.1.90 (external, sdk-cli)"}
SKILLS = (
    "<system-reminder>\nThe following skills are available for use with the Skill tool:\n\n"
    "- {}: Use it.\n</system-reminder>\n"
)
CONTEXT = (
    "<system-reminder>\nAs you answer the user's questions, you can use the following context:\n"
    "# currentDate\nToday's date is 2026-11-{}.\n\n      IMPORTANT: maybe.\n</system-reminder>\n\n"
)
OLD, NEW = SKILLS.format("old"), SKILLS.format("new")


def turn(*users, day=23, headers=AGENT):
    """Each user's message: its blocks, or a text alone, as the client spells one that is stored."""
    messages = []
    for number, said in enumerate(users):
        blocks = [said] if isinstance(said, str) else list(said)
        if number == 0:
            blocks[-1:-1] = [CONTEXT.format(day)]
        content = [{"type": "text", "text": text} for text in blocks]
        alone = number > 0 and isinstance(said, str)
        messages += [
            {"role": "user", "content": said if alone else content},
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
        ]
    return request({"messages": messages[:-1]}, "/v1/messages", headers)


def sent(*turns):
    """What goes on for ``turns``: each extends the one before."""
    previous, found = None, []
    for one in turns:
        assert_idempotent(RULES, one, previous)
        current = normalized(RULES, one, previous)
        if previous is not None:
            assert_extends(previous, current)
        found.append(previous := current)
    return found


def listed(one):
    """The place of each list, and what is in it."""
    return [
        (number, text)
        for number, message in enumerate(one.json["messages"])
        for text in (OLD, NEW)
        if {"type": "text", "text": text} in blocks_of(message["content"])
    ]


def test_a_recorded_session_is_whole_over_three_resumes():
    """Without the rule each of them parts the prompt at the turn before; the list is said once."""
    (path,) = find_captures("claude_2.1.90-resume.jsonl", __file__)
    turns = load_capture(path)
    others = [rule for rule in RULES if rule.default and rule not in KEEP]
    assert set(parted(turns, others)) == {2, 4, 5}
    assert parted(turns, [*others, *KEEP]) == {}
    (last,) = sent(*turns)[-1:]
    assert last.body.count(b"The following skills are available") == 1
    assert last.json["messages"][0]["content"][0] == turns[0].json["messages"][0]["content"][0]


@pytest.mark.parametrize("day", [23, 24])
def test_the_list_of_a_resumed_session_stays_at_its_first_place(day):
    """On the same day or over midnight, in the same process and in the next one."""
    first = turn((OLD, "hello"))
    resumed = turn("hello", (OLD, "again"), day=day)
    goes_on = turn("hello", (OLD, "again"), "more", day=day)
    once_more = turn("hello", "again", "more", (OLD, "and more"), day=day)
    for one in sent(first, resumed, goes_on, once_more):
        assert listed(one) == [(0, OLD)]


def test_another_list_is_told_where_it_is_new():
    """And stays there in turn; the first one again is no copy of the last."""
    first = turn((OLD, "hello"))
    new = turn("hello", (NEW, "again"))
    same = turn("hello", "again", (NEW, "more"))
    back = turn("hello", "again", "more", (OLD, "and more"))
    places = [listed(one) for one in sent(first, new, same, back)]
    changed = [(0, OLD), (2, NEW)]
    assert places == [[(0, OLD)], changed, changed, [*changed, (6, OLD)]]


def test_versions_that_keep_it_are_left_alone():
    """A list that stands where it did, and a copy that the client stores, too."""
    first, later = turn((OLD, "hello")), turn((OLD, "hello"), (OLD, "again"))
    assert_untouched(RULES, later, first)
    assert_untouched(RULES, turn((OLD, "hello"), (OLD, "again"), "more"), later)


@pytest.mark.parametrize("quote", ["{}", "Look:\n{}", "{}\nwhat is it?"])
def test_what_a_user_quotes_stays(quote):
    """Alone in its message, or behind the client's own list."""
    text = quote.format(OLD)
    first = turn((OLD, "hello"))
    later = turn("hello", (OLD, text))
    more = turn("hello", (OLD, text), text)
    for one in sent(first, later, more)[1:]:
        said = [message["content"] for message in one.json["messages"][2::2]]
        assert [blocks_of(content) for content in said] == [blocks_of(text)] * len(said)


def test_a_message_that_was_rewritten_gets_no_list():
    first, later = turn((OLD, "hello")), turn("goodbye", (OLD, "again"))
    assert_untouched(KEEP, later, first)
    assert_untouched(KEEP, turn("hello", (OLD, "again")))
    others = {"User-Agent": "opencode/1.18.33"}
    assert_untouched(RULES, turn("hello", (OLD, "x"), headers=others), first)
