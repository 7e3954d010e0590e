"""What a template does with a turn that has ended, with tools, and with the time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial

import pytest

from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.llama_cpp import LLAMA_CPP
from cacheproxy.core.servers.profile import Profile, Thinking, ThinkingProfile
from cacheproxy.core.template.rendering import KEEPERS, NoPageError
from cacheproxy.core.template.traits import asking_traits
from tests.core.templates import RefusedError, asked, chatml, thinking, turns

NOW = datetime(2026, 11, 5, 9, 41, tzinfo=UTC)


def ask(template, page=LLAMA_CPP.rendering, formats=(), model=""):
    """Ask a template; return what it told, and how often it was asked."""
    return asked(asking_traits(page, model, NOW, formats), template, page)


KEPT = partial(thinking, keeps=lambda *_: True)


def without_results(messages, tools=None, **_):
    return thinking([m for m in messages if m["role"] != "tool"], tools)


@pytest.mark.parametrize(
    ("template", "thoughts"),
    [
        (KEPT, ThinkingProfile(Thinking.KEPT)),
        (partial(KEPT, empty=True), ThinkingProfile(Thinking.KEPT)),
        (partial(thinking, keeps=lambda *_: False), ThinkingProfile(Thinking.NEVER_SHOWN)),
        (thinking, ThinkingProfile(Thinking.DROPPED)),
        # a client that sends nothing back loses the turn as well
        (partial(thinking, empty=True), ThinkingProfile(Thinking.DROPPED, writes_empty=True)),
        (without_results, ThinkingProfile()),  # the turn is not all there
    ],
)
def test_what_becomes_of_thinking_when_the_turn_has_ended(template, thoughts):
    """Kept, dropped at the next user message, or never rendered at all."""
    traits, count = ask(template)
    assert traits.thoughts == thoughts
    assert count <= 8


@pytest.mark.parametrize("keeper", KEEPERS)
def test_the_member_that_keeps_thinking_is_found_by_its_effect(keeper):
    """Each alone, with the value that template writers gave it."""
    name, value = keeper
    traits, count = ask(
        partial(thinking, keeps=lambda late, kwargs: late or kwargs.get(name) is value)
    )
    assert traits.thoughts == ThinkingProfile(Thinking.ON_REQUEST, keeper)
    assert count == 4 + KEEPERS.index(keeper) + 1


def without_tools(messages, tools, **_):
    return thinking(messages, None)


def tools_last(messages, tools=None, *, is_behind=True, **_):
    at = max(n for n, m in enumerate(messages) if m["role"] == "user")
    said, listed = messages[at]["content"], json.dumps(tools)
    moved = {"role": "user", "content": said + listed if is_behind else listed + said}
    return without_tools([*messages[:at], moved, *messages[at + 1 :]], None)


@pytest.mark.parametrize(
    ("template", "order", "is_last"),
    [
        (thinking, PromptOrder.SYSTEM_FIRST, False),
        (chatml, PromptOrder.TOOLS_FIRST, False),
        (without_tools, None, False),
        (tools_last, PromptOrder.SYSTEM_FIRST, True),
        (partial(tools_last, is_behind=False), PromptOrder.SYSTEM_FIRST, True),
    ],
)
def test_the_order_is_that_of_the_marks(template, order, is_last):
    """Tools in the last user message stand behind what was said before; they are no empty block."""
    traits, _ = ask(template)
    assert (traits.order, traits.tools_last) == (order, is_last)
    assert not traits.system_last
    assert not traits.thoughts.writes_empty


def test_system_text_in_the_last_user_message():
    """As Mistral Nemo has it, where the tools stand there, too."""
    traits, _ = ask(lambda messages, tools=None, **_: chatml([*messages[1:-1], messages[0]], tools))
    assert (traits.system_last, traits.tools_last) == (True, False)


@pytest.mark.parametrize(
    ("line", "formats", "clock"),
    [
        ("Today: 2026-11-04", (), "the date"),  # the server's day is another by its zone
        ("Today: 26 Jul 2024", (), ""),  # what Llama 3.2 prints where it is not told the time
        ("261105!", ("%y%m%d!",), "the date"),
        ("", ("%B %d, %Y",), ""),  # Granite asks for it only where there is no system text
    ],
)
def test_a_template_that_prints_the_day_has_a_clock(line, formats, clock):
    found, _ = ask(lambda *more, **_: f"{line}\n{thinking(*more)}", formats=formats)
    assert found.clock == clock


def test_a_template_that_refuses_tools_tells_nothing_of_turns():
    """As Gemma's: no fact rather than a wrong one."""

    def no_tools(messages, tools=None):
        raise RefusedError

    assert ask(no_tools)[0] == Profile()
    assert ask(turns)[0].thoughts.way in (Thinking.UNKNOWN, Thinking.NEVER_SHOWN)


@pytest.mark.parametrize("answer", [(200, b"{}"), (404, b""), (503, b""), (200, b"x" * 70_000)])
def test_a_page_that_goes_away_ends_the_questions(answer):
    """Nothing is known then."""
    asking = asking_traits(LLAMA_CPP.rendering)
    next(asking)
    with pytest.raises(NoPageError):
        asking.send(answer)
