"""What a conversation that only grows becomes in chat templates, each in a few lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.template.questions import KEEPERS
from cacheproxy.core.template.rehearsal import AT_RESULT, AT_USER, rehearsing
from cacheproxy.core.template.rendering import LLAMA, VLLM, NoPageError

NOW = datetime(2026, 11, 22, 12, 58, tzinfo=UTC)
AFTER_USER = "everything after the first user message"


def last_user(messages):
    return max(n for n, message in enumerate(messages) if message["role"] == "user")


def said(message, thinking=""):
    calls = json.dumps(message.get("tool_calls") or "")
    return f"<{message['role']}>{thinking}{message['content']}{calls}</>"


def plain(messages, tools, kwargs):
    return json.dumps(tools) + "".join(map(said, messages)) + "<assistant>"


def thought(message):
    return f"<think>{message.get('reasoning_content', '')}</think>"


def think(messages, tools, kwargs, *, kept=False):
    """Thinking after the last user message alone, an empty block where there is none."""
    last = last_user(messages)
    body = [
        said(m, thought(m) if m["role"] == "assistant" and (kept or n > last) else "")
        for n, m in enumerate(messages)
    ]
    return json.dumps(tools) + "".join(body) + "<assistant>"


def only_sent(messages, tools, kwargs):
    """The same, but nothing is written where nothing was sent."""
    return think(messages, tools, kwargs).replace("<think></think>", "")


def asked(member):
    name, value = member
    return lambda messages, tools, kwargs: think(
        messages, tools, kwargs, kept=kwargs.get(name) is value
    )


def tools_last(messages, tools, kwargs):
    last = last_user(messages)
    body = [said(m) + json.dumps(tools) * (n == last) for n, m in enumerate(messages)]
    return "".join(body) + "<assistant>"


def system_last(messages, tools, kwargs):
    last = last_user(messages)
    head, *rest = messages
    return json.dumps(tools) + "".join(
        head["content"] * (n == last - 1) + said(m) for n, m in enumerate(rest)
    )


def counting(messages, tools, kwargs):
    return f"{len(messages)} messages" + plain(messages, tools, kwargs)


def rehearse(template, page=LLAMA, now=NOW):
    """Answer the questions as a server with this template would; return what is made of it."""
    asking = rehearsing(page, now)
    body = next(asking)
    for _ in range(100):
        question = json.loads(body)
        kwargs = question.get("chat_template_kwargs") or {}
        text = template(question["messages"], question["tools"], kwargs)
        told = {"prompt": text} if page == LLAMA else {"token_strs": list(text)}
        try:
            body = asking.send((200, json.dumps(told).encode()))
        except StopIteration as end:
            return end.value
    raise AssertionError("it asks for ever")


def bodies(asking, answers):
    """Yield what is asked in turn, until there is nothing more to ask."""
    for answer in answers:
        try:
            yield asking.send((200, answer))
        except StopIteration:
            return


@pytest.mark.parametrize("page", [LLAMA, VLLM])
def test_a_template_in_which_it_only_grows(page):
    found = rehearse(plain, page)
    assert (found.lapses, found.cure, found.clock, found.told_by) == ((), None, "", page)


def test_thinking_that_is_dropped_at_the_second_user_message():
    """Whether it is sent back or not, and nothing that is known keeps it."""
    found = rehearse(think)
    assert [(one.when, one.rewrite, one.sent_back) for one in found.lapses] == [
        (AT_USER, Rewrite.THINKING, True),
        (AT_USER, Rewrite.THINKING, False),
    ]
    lapse = found.lapse(Rewrite.THINKING, sent_back=True)
    assert lapse.says == (
        "at the second user message this template drops the thinking of the turn before: "
        f"{AFTER_USER} is read again"
    )
    assert 0 < lapse.kept < lapse.prompt
    assert lapse.lost > 0.9
    assert found.cure is None


def test_thinking_that_is_dropped_only_where_it_is_sent():
    found = rehearse(only_sent)
    assert [one.sent_back for one in found.lapses] == [True]
    assert found.lapse(Rewrite.THINKING, sent_back=False) is None


@pytest.mark.parametrize("member", KEEPERS)
def test_a_template_that_can_be_asked_to_keep_it(member):
    """By whichever member of chat_template_kwargs."""
    found = rehearse(asked(member))
    assert found.lapses
    assert found.cure == member


def test_tools_that_stand_in_the_last_user_message():
    found = rehearse(tools_last)
    assert {one.rewrite for one in found.lapses} == {Rewrite.TOOLS}
    assert found.lapses[0].after == AFTER_USER
    assert found.cure is None


def test_a_system_text_that_stands_in_the_last_user_message():
    (lapse, _) = rehearse(system_last).lapses
    assert lapse.rewrite is Rewrite.OTHER
    assert "moves the system text" in lapse.says


def test_a_head_that_changes_with_each_message():
    """The whole prompt is read again, at the tool's result already."""
    found = rehearse(counting)
    assert [one.when for one in found.lapses] == [AT_RESULT, AT_USER] * 2
    assert {one.after for one in found.lapses} == {"the whole prompt"}
    assert {one.lost for one in found.lapses} == {1.0}


def test_a_template_with_a_clock():
    def clocked(*more):
        return "Today: 2026-11-22" + plain(*more)

    found = rehearse(clocked)
    assert (found.clock, found.lapses) == ("the date", ())


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (405, b""),
        (501, b""),
        (200, b"{}"),
        (200, b"["),
        (200, json.dumps({"prompt": "cacheproxy-one" * 50_000}).encode()),
    ],
)
def test_a_server_without_the_page(status, body):
    """Or with one that renders nothing, or far too much."""
    asking = rehearsing(LLAMA, NOW)
    next(asking)
    with pytest.raises(NoPageError):
        asking.send((status, body))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error": "no tools here"}'),
        (200, b'{"prompt": "something else"}'),
    ],
)
def test_what_is_no_rendering_says_nothing(status, body):
    asking = rehearsing(LLAMA, NOW)
    next(asking)
    with pytest.raises(StopIteration) as end:
        asking.send((status, body))
    assert end.value.value is None


@given(st.lists(st.text(max_size=200), min_size=20, max_size=20))
def test_whatever_is_answered_it_comes_to_an_end(texts):
    """With an answer, or with none."""
    asking = rehearsing(LLAMA, NOW)
    next(asking)
    marks = "cacheproxy-one cacheproxy-result cacheproxy-two"
    answers = (json.dumps({"prompt": text + marks}).encode() for text in texts)
    assert len(list(bodies(asking, answers))) < len(texts)
