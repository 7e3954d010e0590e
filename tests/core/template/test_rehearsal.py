"""What a conversation that only grows becomes in chat templates, each in a few lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.template.questions import KEEPERS
from cacheproxy.core.template.rehearsal import AT_RESULT, AT_USER, rehearsing
from cacheproxy.core.template.rendering import LLAMA, VLLM, NoPageError
from tests.core.templates import asked, chatml, inline, thinking, tools_last

NOW = datetime(2026, 11, 22, 12, 58, tzinfo=UTC)
AFTER_USER = "everything after the first user message"


def rehearse(template, page=LLAMA):
    return asked(rehearsing(page, NOW), template, page)[0]


def system_last(messages, tools=None, **_):
    head, *rest = messages
    last = max(n for n, message in enumerate(rest) if message["role"] == "user")
    return chatml(rest[:last], tools) + chatml([head, *rest[last:]])


@pytest.mark.parametrize("page", [LLAMA, VLLM])
def test_a_template_in_which_it_only_grows(page):
    found = rehearse(inline, page)
    assert (found.lapses, found.cure, found.clock) == ((), None, "")


def test_thinking_that_is_dropped_at_the_second_user_message():
    """Whether it is sent back or not, and nothing that is known keeps it."""
    found = rehearse(partial(thinking, empty=True))
    assert [(one.when, one.rewrite, one.sent_back) for one in found.lapses] == [
        (AT_USER, Rewrite.THINKING, True),
        (AT_USER, Rewrite.THINKING, False),
    ]
    assert found.lapse(Rewrite.THINKING, sent_back=True).says == (
        "at the second user message this template drops the thinking of the turn before: "
        f"the server reads {AFTER_USER} again"
    )
    assert found.cure is None


def test_thinking_that_is_dropped_only_where_it_is_sent():
    found = rehearse(thinking)
    assert [one.sent_back for one in found.lapses] == [True]
    assert found.lapse(Rewrite.THINKING, sent_back=False) is None


@pytest.mark.parametrize("member", KEEPERS)
def test_a_template_that_can_be_asked_to_keep_it(member):
    """By whichever member of chat_template_kwargs."""
    name, value = member
    found = rehearse(
        partial(thinking, empty=True, keeps=lambda late, kwargs: late or kwargs.get(name) is value)
    )
    assert found.lapses
    assert found.cure == member


@pytest.mark.parametrize(
    ("template", "rewrite", "does", "steps", "after"),
    [
        (tools_last, Rewrite.TOOLS, "moves the tools", [AT_USER], "everything after the system"),
        (system_last, Rewrite.OTHER, "moves the system text", [AT_USER], "the whole prompt"),
        (
            lambda messages, tools=None: f"{len(messages)} messages" + chatml(messages, tools),
            Rewrite.OTHER,
            "changes text that it had rendered before",
            [AT_RESULT, AT_USER],
            "the whole prompt",
        ),
    ],
)
def test_what_else_a_template_moves(template, rewrite, does, steps, after):
    """A head that changes is read again at the tool's result already."""
    found = rehearse(template)
    assert [one.when for one in found.lapses] == steps * 2
    assert {one.rewrite for one in found.lapses} == {rewrite}
    assert all(does in one.says and one.after.startswith(after) for one in found.lapses)
    assert found.cure is None


def test_a_template_with_a_clock():
    found = rehearse(lambda *more: "Today: 2026-11-22" + inline(*more))
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
    said = iter(texts)
    marks = "cacheproxy-one cacheproxy-result cacheproxy-two"
    rehearse(lambda *_, **__: next(said) + marks)
    assert next(said, None) is not None
