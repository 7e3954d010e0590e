"""What the answers of a chat template say about late system messages."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.placement.placement import Late, Treatment
from cacheproxy.core.template.questions import PLAIN, body_of, first_questions, tool_questions
from cacheproxy.core.template.rendering import placement_of, wants_model
from tests.core.templates import RefusedError, as_user, drop, hoist, inline, strict, turns

QUESTIONS = first_questions() | tool_questions()


def answers(template):
    found = {}
    for name, question in QUESTIONS.items():
        try:
            found[name] = template(**question)
        except RefusedError:
            found[name] = None
    return found


ask = partial(placement_of, told_by="test")


@pytest.mark.parametrize(
    ("template", "late", "lead"),
    [
        (inline, Late.INLINE, Late.INLINE),
        (as_user, Late.USER, Late.INLINE),
        (hoist, Late.HOISTED, Late.INLINE),
        (drop, Late.DROPPED, Late.DROPPED),
        (strict, Late.REFUSED, Late.REFUSED),
    ],
)
def test_each_kind_of_template_is_told_by_its_text(template, late, lead):
    """For both roles; none of these wants roles in turns."""
    placement = ask(answers(template))
    assert placement.system == placement.developer == Treatment(late, lead)
    assert not placement.joins_user
    assert not placement.joins_tool
    assert placement.told_by == "test"


def test_a_template_that_wants_turns_is_told_too():
    """Behind a user message, and behind a tool's result."""
    placement = ask(answers(turns))
    assert placement.system.late is Late.REFUSED
    assert placement.joins_user
    assert placement.joins_tool


def test_the_roles_are_told_apart():
    """A template may know one of them alone."""

    def only_system(messages, tools=None):
        if any(m["role"] == "developer" for m in messages):
            raise RefusedError
        return inline(messages, tools)

    placement = ask(answers(only_system))
    assert placement.system == Treatment(Late.INLINE, Late.INLINE)
    assert placement.developer == Treatment(Late.REFUSED, Late.REFUSED)
    assert placement.places


def test_without_the_questions_of_tools_nothing_is_known_of_results():
    """They are asked only where something has to be placed."""
    first = {name: text for name, text in answers(turns).items() if name in first_questions()}
    assert not ask(first).joins_tool
    assert ask(first).joins_user
    no_tools = answers(turns) | {"tool": None}
    assert not ask(no_tools).joins_tool


@pytest.mark.parametrize(
    "plain", [None, "", "nothing of ours", "cacheproxy-two cacheproxy-one cacheproxy-three"]
)
def test_what_does_not_say_our_words_in_order_is_no_template(plain):
    """A page of that name may be anything."""
    assert ask(answers(inline) | {PLAIN: plain}) is None
    assert ask({}) is None


@given(st.dictionaries(st.sampled_from(sorted(QUESTIONS)), st.none() | st.text()))
def test_nonsense_is_survived(rendered):
    """It tells nothing."""
    assert ask(rendered) is None


@given(
    st.dictionaries(
        st.sampled_from(sorted(set(QUESTIONS) - {PLAIN})),
        st.none() | st.text() | st.sampled_from(["cacheproxy-late", *answers(inline).values()]),
    )
)
def test_what_was_not_asked_is_unknown(rendered):
    """Whatever the other answers are."""
    placement = ask({PLAIN: answers(inline)[PLAIN], **rendered})
    for role in ("system", "developer"):
        treatment = getattr(placement, role)
        assert (treatment.late is Late.UNKNOWN) == (f"late {role}" not in rendered)
        assert (treatment.lead is Late.UNKNOWN) == (f"second {role}" not in rendered)


def test_a_question_is_a_chat_body_of_a_dozen_words():
    """The first is the plain one: whether the page is what we take it for."""
    assert next(iter(first_questions())) == PLAIN
    for question in QUESTIONS.values():
        body = body_of(question, model="m")
        assert len(body) < 1000
        assert json.loads(body) == question | {"model": "m"}


@pytest.mark.parametrize(
    ("status", "wants"), [(200, False), (404, False), (401, False), (400, True), (422, True)]
)
def test_an_error_that_is_no_missing_page_may_be_for_want_of_a_model(status, wants):
    """A router has to be told which."""
    assert wants_model(status) is wants
