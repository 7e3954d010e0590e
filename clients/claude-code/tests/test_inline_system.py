"""Inline system messages become user text in place, without breaking templates or tool calls."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from cacheproxy_claude_code import RULES
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

RULE = rule_named(RULES, "claude-system-reminders")
ON = [RULE]
CACHE = {"cache_control": {"type": "ephemeral"}}


def text(words, **more):
    return {"type": "text", "text": words, **more}


def wrapped(words, **more):
    return text(f"<system-reminder>\n{words}\n</system-reminder>", **more)


def user(content):
    return {"role": "user", "content": content}


def system(content, **more):
    return {"role": "system", "content": content, **more}


def assistant(content):
    return {"role": "assistant", "content": content}


def call(*names):
    return assistant([{"type": "tool_use", "id": name, "name": "t", "input": {}} for name in names])


def result(name, content="done"):
    return {"type": "tool_result", "tool_use_id": name, "content": content}


def sent(*messages):
    asked = request({"messages": list(messages)})
    assert_idempotent(ON, asked)
    return normalized(ON, asked).json["messages"]


def test_it_is_off_by_default():
    """The user switches it on by name."""
    assert not RULE.default


def test_after_a_user_message_it_is_folded_in():
    """Lists get another text block; a string becomes blocks; the system message is gone."""
    assert sent(user("hi"), system("news"), assistant("ho")) == [
        user([text("hi"), wrapped("news")]),
        assistant("ho"),
    ]
    assert sent(user([text("hi", **CACHE)]), system([text("news", **CACHE)])) == [
        user([text("hi", **CACHE), wrapped("news", **CACHE)]),
    ]


def test_the_turn_in_which_it_arrives_and_the_next_ones_render_alike():
    """Claude Code sends it as a marked block first and as a string later: the same prompt."""
    first = request({"messages": [user([text("hi", **CACHE)]), system([text("news", **CACHE)])]})
    later = [user("hi"), system("news"), call("1"), user([result("1")])]
    assert_extends(first, request({"messages": later}), ON)


def test_several_texts_are_wrapped_as_one_reminder():
    """The opening tag goes before the first text, the closing tag after the last."""
    assert sent(user("hi"), system([text("a"), text("b")])) == [
        user([text("hi"), text("<system-reminder>\na"), text("b\n</system-reminder>")]),
    ]
    assert sent(user("hi"), system("a"), system("b")) == [
        user([text("hi"), wrapped("a"), wrapped("b")]),
    ]


def test_after_tool_results_it_follows_them_in_the_same_message():
    """What the tool returned stays as it is."""
    assert sent(user("hi"), call("1"), user([result("1", "x")]), system("news")) == [
        user("hi"),
        call("1"),
        user([result("1", "x"), wrapped("news")]),
    ]


def test_it_never_comes_between_a_call_and_its_result():
    """Until the last result is there it waits, and stands after it; else it is left."""
    assert sent(user("hi"), call("1"), system("news"), user([result("1"), text("go on")])) == [
        user("hi"),
        call("1"),
        user([result("1"), text("go on"), wrapped("news")]),
    ]
    two = [user("hi"), call("1", "2"), user([result("1")]), system("news"), user([result("2")])]
    assert sent(*two) == [
        user("hi"),
        call("1", "2"),
        user([result("1"), result("2"), wrapped("news")]),
    ]
    assert_untouched(ON, request({"messages": [user("hi"), call("1"), system("news")]}))


def test_an_answered_call_holds_nothing_up():
    """With the result there, also before a message that cannot be folded, nothing waits."""
    tools = system([{"type": "tool_addition", "tool": {}}])
    answered = [user("hi"), call("1"), user([result("1")]), tools]
    assert sent(*answered, system("news"), assistant("ho")) == [
        *answered,
        user("<system-reminder>\nnews\n</system-reminder>"),
        assistant("ho"),
    ]
    assert_untouched(ON, request({"messages": [user("hi"), call("1"), tools, system("news")]}))


def test_without_a_user_message_beside_it_it_becomes_one():
    """In place, with the bytes of its text kept; keys that user messages lack go."""
    body = (
        '{"messages": [{"role":"user","content":"hi"}, {"role":"assistant","content":"ho"},'
        ' {"role" : "system", "x/y":1,"content": "new\\u0073 \\ud83d", "output_config":{}},'
        ' {"role":"assistant","content":"ha"}]}'
    )
    wanted = (
        '{"messages": [{"role":"user","content":"hi"}, {"role":"assistant","content":"ho"},'
        ' {"role" : "user", "content": "<system-reminder>\\nnew\\u0073 \\ud83d\\n'
        '</system-reminder>"}, {"role":"assistant","content":"ha"}]}'
    )
    assert normalized(ON, request(body)).body.decode() == wanted
    assert sent(user("hi"), assistant("ho"), system([text("a"), text("b")])) == [
        user("hi"),
        assistant("ho"),
        user([text("<system-reminder>\na"), text("b\n</system-reminder>")]),
    ]
    assert sent(user("hi"), assistant("ho"), system("a"), system("b")) == [
        user("hi"),
        assistant("ho"),
        user([wrapped("a"), wrapped("b")]),
    ]


def test_user_messages_it_held_apart_are_joined_in_order():
    """Strict templates want user and assistant in turns."""
    assert sent(user("a"), system("news"), user([text("b")])) == [
        user([text("a"), wrapped("news"), text("b")]),
    ]
    assert sent(user("a"), assistant("x"), system("news"), user("b")) == [
        user("a"),
        assistant("x"),
        user([wrapped("news"), text("b")]),
    ]


def test_one_without_text_is_folded_into_nothing():
    """``--bare`` sends an empty one with an effort setting: the user message stays as it is."""
    effort = system([], output_config={"effort": "medium"})
    assert sent(user("hi"), effort, call("1")) == [user("hi"), call("1")]
    assert sent(user("hi"), system(" \n"), call("1")) == [user("hi"), call("1")]
    assert_untouched(ON, request({"messages": [user("hi"), assistant("ho"), effort]}))


@pytest.mark.parametrize(
    "messages",
    [
        [system("head"), user("hi")],
        [system("head"), system("head"), user("hi"), assistant("ho")],
        [user("hi"), system([{"type": "tool_addition", "tool": {}}]), assistant("ho")],
        [user("hi"), system([text("a"), {"type": "image"}])],
        [user("hi"), system(None)],
        [user(None), assistant("ho")],
        [user("a"), user("b"), assistant("system")],
    ],
)
def test_what_it_leaves(messages):
    """The prompt's head, blocks that a user message cannot hold, and bodies without one."""
    assert_untouched(ON, request({"messages": messages}))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/api/chat", "/x"])
def test_other_apis_are_left(path):
    """Only Anthropic's API has them inline; in a chat a system message is nothing special."""
    assert_untouched(ON, request({"messages": [user("hi"), system("news")]}, path))


CONTENTS = st.one_of(
    st.sampled_from(["", " ", "hi", "<system-reminder>\nx\n</system-reminder>", "\ud83d", None, 1]),
    st.lists(
        st.one_of(
            st.sampled_from(["", "a", "b"]).map(text),
            st.sampled_from(["1", "2", 3]).map(result),
            st.sampled_from(["1", "2", []]).map(
                lambda name: {"type": "tool_use", "id": name, "name": "t", "input": 1.50}
            ),
            st.sampled_from([None, {}, {"type": "text"}, {"type": "image"}]),
        ),
        max_size=3,
    ),
)
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, CONTENTS),
        st.builds(system, CONTENTS),
        st.builds(assistant, CONTENTS),
        st.sampled_from([None, 1, "x", {}, {"role": []}, {"role": "system"}]),
    ),
    max_size=8,
)


def spoken(messages, role):
    """All that was said in ``role``, in order: texts and other blocks."""
    found = []
    for message in messages:
        if isinstance(message, dict) and message.get("role") == role:
            content = message.get("content")
            blocks = [text(content)] if isinstance(content, str) and content else content
            found += blocks if isinstance(blocks, list) else []
    return found


@given(MESSAGES)
def test_any_shape_is_survived_and_nothing_anyone_said_is_lost(messages):
    """It is a fixed point; assistant messages stay; users' blocks stay, whole and in order."""
    result = sent(*messages)
    assert spoken(result, "assistant") == spoken(messages, "assistant")
    kept = iter(spoken(result, "user"))
    assert all(block in kept for block in spoken(messages, "user"))


@given(st.lists(st.sampled_from(["plain", "tool", "news", "early"]), min_size=1, max_size=6))
def test_conversations_stay_valid_and_each_turn_extends_the_last(turns):
    """Roles alternate, results directly follow calls, and every request extends the one before."""
    messages, previous = [], None
    for number, kind in enumerate(turns):
        if kind == "plain":
            messages.append(user(f"turn {number}"))
        else:
            messages.append(user([text(f"turn {number}"), text("more")]))
            messages.append(call(str(number)))
            if kind == "early":
                messages.append(system("early"))
            messages.append(user([result(str(number))]))
        if kind == "news":
            messages += [system("news"), system([text("more news")])]
        current = request({"messages": messages})
        if previous is not None:
            assert_extends(previous, current, ON)
        previous = current
        folded = sent(*messages)
        roles = [message["role"] for message in folded]
        assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))]
        for one, other in pairwise(folded):
            for block in one["content"] if isinstance(one["content"], list) else ():
                if block["type"] == "tool_use":
                    assert other["content"][0] == result(block["id"])
        messages = json.loads(json.dumps([*messages, assistant("ok")]))


@pytest.mark.parametrize("messages", [None, 1, "text", {}, {"0": system("x")}, []])
def test_messages_that_are_no_list_are_left(messages):
    """A bad shape is no error."""
    assert_untouched(ON, request({"messages": messages, "x": "system"}))
