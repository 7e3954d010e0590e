"""What a template does with a turn that has ended, with tools, and with the time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.prompt.prompt import Order
from cacheproxy.core.server.profile import Thinking, Thoughts
from cacheproxy.core.template.questions import KEEPERS, turn_questions
from cacheproxy.core.template.rendering import LLAMA, VLLM, NoPageError
from cacheproxy.core.template.traits import Traits, asking_traits, traits_of
from tests.core.templates import RefusedError, asked, chatml, thinking, turns

NOW = datetime(2026, 11, 5, 9, 41, tzinfo=UTC)


def ask(template, path=LLAMA, formats=(), model=""):
    """Ask a template; return what it told, and how often it was asked."""
    return asked(asking_traits(path, model, NOW, formats), template, path)


def keeps_always(late, kwargs):
    return True


def keeps_never(late, kwargs):
    return False


@pytest.mark.parametrize(
    ("keeps", "way"),
    [
        (keeps_always, Thinking.KEPT),
        (keeps_never, Thinking.NEVER_SHOWN),
        (lambda late, kwargs: late, Thinking.DROPPED),
    ],
)
def test_what_becomes_of_thinking_when_the_turn_has_ended(keeps, way):
    """Kept, dropped at the next user message, or never rendered at all."""
    traits, count = ask(partial(thinking, keeps=keeps))
    assert traits.thoughts == Thoughts(way)
    assert count <= 8


@pytest.mark.parametrize("keeper", KEEPERS)
def test_the_member_that_keeps_thinking_is_found_by_its_effect(keeper):
    """Each alone, with the value that template writers gave it."""
    name, value = keeper
    traits, count = ask(
        partial(thinking, keeps=lambda late, kwargs: late or kwargs.get(name) is value)
    )
    assert traits.thoughts == Thoughts(Thinking.ON_REQUEST, keeper)
    assert count == 4 + KEEPERS.index(keeper) + 1


def test_an_empty_block_that_goes_when_the_turn_has_ended():
    """Then a client that sends nothing back loses the turn as well."""
    traits, _ = ask(partial(thinking, empty=True))
    assert traits.thoughts == Thoughts(Thinking.DROPPED, None, writes_empty=True)
    assert not ask(partial(thinking, keeps=keeps_always, empty=True))[0].thoughts.writes_empty


def test_the_order_is_that_of_the_marks():
    """Tools as most print them, and system text first."""
    assert ask(thinking)[0].order is Order.SYSTEM_FIRST
    assert ask(chatml)[0].order is Order.TOOLS_FIRST
    assert ask(lambda messages, tools, **_: thinking(messages, None))[0].order is None


@pytest.mark.parametrize("is_behind", [True, False])
def test_tools_in_the_last_user_message(is_behind):
    """They stand behind what was said before; no empty block is taken for them."""

    def last(messages, tools=None, **_):
        at = max(n for n, m in enumerate(messages) if m["role"] == "user")
        said, listed = messages[at]["content"], json.dumps(tools)
        moved = {"role": "user", "content": said + listed if is_behind else listed + said}
        return thinking([*messages[:at], moved, *messages[at + 1 :]], None)

    traits, _ = ask(last)
    assert traits.tools_last
    assert not traits.thoughts.writes_empty
    assert not ask(thinking)[0].tools_last


@pytest.mark.parametrize(
    ("line", "formats", "has_clock"),
    [
        ("Today: 2026-11-04", (), True),  # the server's day is another by its zone
        ("Today: 26 Jul 2024", (), False),  # what Llama 3.2 prints where it is not told the time
        ("261105!", ("%y%m%d!",), True),
        ("", ("%B %d, %Y",), False),  # Granite asks for it only where there is no system text
    ],
)
def test_a_template_that_prints_the_day_has_a_clock(line, formats, has_clock):
    found, _ = ask(lambda *more, **_: f"{line}\n{thinking(*more)}", formats=formats)
    assert found.has_clock is has_clock


def test_a_template_that_refuses_tools_tells_nothing_of_turns():
    """As Gemma's: no fact rather than a wrong one."""

    def no_tools(messages, tools=None):
        raise RefusedError

    assert ask(no_tools)[0] == Traits()
    assert ask(turns)[0].thoughts.way in (Thinking.UNKNOWN, Thinking.NEVER_SHOWN)


def test_a_template_that_leaves_results_out_tells_nothing_of_thinking():
    """The turn is not all there."""

    def without(messages, tools=None, **_):
        return thinking([m for m in messages if m["role"] != "tool"], tools)

    assert ask(without)[0].thoughts == Thoughts()


def test_tokens_tell_the_same_as_a_text():
    """Of vLLM, for the model that it was asked for."""
    assert ask(thinking, VLLM, model="m") == ask(thinking)


@pytest.mark.parametrize("answer", [(200, b"{}"), (404, b""), (503, b""), (200, b"x" * 70_000)])
def test_a_page_that_goes_away_ends_the_questions(answer):
    """Nothing is known then."""
    asking = asking_traits(LLAMA)
    next(asking)
    with pytest.raises(NoPageError):
        asking.send(answer)


@given(st.dictionaries(st.sampled_from(sorted(turn_questions())), st.none() | st.text()))
def test_nonsense_tells_nothing(rendered):
    """Text without our words."""
    traits = traits_of(rendered, None, NOW)
    assert (traits.thoughts, traits.order, traits.tools_last) == (Thoughts(), None, False)
