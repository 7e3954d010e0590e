"""The internal context, kept where it stood: each turn then extends the one before."""

import json
from itertools import pairwise

import pytest
from cacheproxy_openclaw import RULES
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    assert_untouched,
    normalized,
    request,
    rule_named,
)

RULE = rule_named(RULES, "openclaw-keep-context")
BEGIN, END = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
SYSTEM = {"role": "system", "content": "<!-- openclaw:attempt:STABLE -->\nYou are."}


def context(text="none"):
    return user([{"type": "text", "text": f"{BEGIN}\n{text}\n{END}"}])


def user(content):
    return {"role": "user", "content": content}


def model(text):
    return {"role": "assistant", "content": text}


def chat(*messages):
    return request({"messages": [SYSTEM, *messages]}, "/v1/chat/completions")


HISTORY = [user("one"), model("two"), user("three"), model("four"), user("five")]
TURNS = [chat(*HISTORY[:count], context(f"{count}")) for count in (1, 3, 5)]


def sent(turns):
    """The turns as they are sent, each after the one before."""
    found = []
    for one in turns:
        assert_idempotent([RULE], one, found[-1] if found else None)
        found.append(normalized([RULE], one, found[-1] if found else None))
    return found


def messages_of(one):
    return one.json["messages"][1:]


def test_each_context_stays_where_it_stood():
    """And the newest stands in the newest message, once."""
    assert not RULE.default
    found = sent(TURNS)
    assert found[0] is TURNS[0]
    for before, after in pairwise(found):
        assert_extends(before, after)
    kept = [context("1"), context("3"), context("5")]
    expected = [HISTORY[0], kept[0], *HISTORY[1:3], kept[1], *HISTORY[3:], kept[2]]
    assert messages_of(found[-1]) == expected


def test_it_stays_in_a_tool_loop_and_where_it_does_not_move():
    tools = [model("call"), {"role": "tool", "tool_call_id": "1", "content": "done"}]
    looped = [TURNS[0], chat(HISTORY[0], *tools, context("1"))]
    assert messages_of(sent(looped)[1]) == [HISTORY[0], context("1"), *tools, context("1")]
    stays = [TURNS[0], chat(HISTORY[0], context("1"), *tools)]
    assert sent(stays)[1] is stays[1]


def test_cache_breakpoints_and_thinking_may_come_and_go():
    block = {"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}
    thought = {"type": "thinking", "thinking": "…", "signature": "s"}
    answer = {"type": "text", "text": "two"}
    turns = [
        chat(user([block]), context("1")),
        chat(user("one"), model([thought, answer]), user("three"), context("3")),
        chat(user("one"), model("two"), user("three"), model("four"), user("five"), context("5")),
    ]
    last = messages_of(sent(turns)[-1])
    assert [message for message in last if BEGIN in json.dumps(message)] == [
        context("1"), context("3"), context("5"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("later", "kept"),
    [
        ([user("other"), model("two"), user("three")], []),
        ([user("one"), model("edited"), user("three")], [context("1")]),
        ([user("one")], [context("1")]),
        ([], []),
    ],
)
def test_the_contexts_of_what_is_gone_go_with_it(later, kept):
    """A history that was edited, forked or compacted."""
    before = sent(TURNS)[-1]
    after = normalized([RULE], chat(*later, context("new")), before)
    found = [message for message in messages_of(after) if BEGIN in json.dumps(message)]
    assert found == [*kept, context("new")]


@pytest.mark.parametrize(
    "text",
    [
        f"Why {BEGIN}\nnone\n{END}",
        f"{BEGIN}\nnone\n{END} is what it says",
        f"{BEGIN}\nnone",
        f"{BEGIN}{END}",
    ],
)
def test_what_a_user_typed_is_not_put_back(text):
    """It quotes the marks, or the user took it back."""
    before = chat(user("one"), user(text), context("1"))
    now = chat(user("one"), model("two"), context("2"))
    assert messages_of(normalized([RULE], now, before)) == [
        user("one"), model("two"), context("2"),
    ]  # fmt: skip


def test_what_looks_like_many_notes_behind_a_context_takes_no_time():
    text = f"{BEGIN}\nx\n{END}" + "\n\n<system-reminder>\nx\n</system-reminder>" * 99 + "!"
    assert_untouched([RULE], chat(user("one"), user(text)), chat(user("one"), user("two")))


def test_a_user_who_typed_just_that_has_it_once():
    typed = user(f"{BEGIN}\nmine\n{END}")
    turns = [chat(typed, context("1")), chat(typed, model("two"), user("three"), context("3"))]
    found = messages_of(sent(turns)[-1])
    assert found == [typed, context("1"), model("two"), user("three"), context("3")]


def test_without_a_context_or_a_turn_before_nothing_is_done():
    assert_untouched([RULE], TURNS[0])
    plain = chat(*HISTORY)
    assert normalized([RULE], plain, TURNS[0]) is plain
    assert normalized([RULE], TURNS[1], request("no JSON")) is TURNS[1]


TEXTS = st.sampled_from(["a", "b", f"{BEGIN}\na\n{END}", f"{BEGIN}\nb\n{END}", BEGIN])
MESSAGES = st.lists(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["user", "assistant", "tool"]),
        TEXTS,
    ),
    max_size=8,
)


@given(MESSAGES, MESSAGES)
def test_nothing_but_contexts_is_ever_added_and_nothing_goes(before, now):
    """Whatever came before; and a second pass changes nothing."""
    previous, asked = chat(*before), chat(*now)
    assert_idempotent([RULE], asked, previous)
    found = messages_of(normalized([RULE], asked, previous))
    left = list(now)
    for message in found:
        if left and message == left[0]:
            left.pop(0)
        else:
            assert message in before
            assert message["role"] == "user"
            assert message["content"].startswith(f"{BEGIN}\n")
    assert left == []
