"""What a chat template is asked about messages, turns, tools and the time."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.kinds.llama_cpp import LLAMA_CPP
from cacheproxy.core.kinds.placement import Late
from cacheproxy.core.template.rendering import (
    PLAIN,
    NoPageError,
    asking,
    body_of,
    first_questions,
    placement_of,
    text_of,
    tool_questions,
)
from cacheproxy.core.template.traits import asking_traits
from tests import transcript
from tests.core.templates import asked, inline

QUESTIONS = first_questions() | tool_questions()
NOW = datetime(2026, 11, 5, 9, 41, tzinfo=UTC)


def placed(template):
    return asked(asking(LLAMA_CPP.serving.rendering), template)[0]


def learned(template, formats=()):
    """What a template told, and how often it was asked."""
    page = LLAMA_CPP.serving.rendering
    return asked(asking_traits(page, "", NOW, formats), template, page)


def thoughts(template):
    found, count = learned(template)
    return found.thoughts, count


@pytest.mark.parametrize("surface", ["templates", "short"])
def test_what_is_asked_and_told(surface):
    transcript.holds(f"{surface}.txt", globals())


PLAINLY = inline(**QUESTIONS[PLAIN])


@pytest.mark.parametrize(
    "plain", [None, "", "nothing of ours", "cacheproxy-two cacheproxy-one cacheproxy-three"]
)
@given(st.dictionaries(st.sampled_from(sorted(QUESTIONS)), st.none() | st.text()))
def test_what_does_not_say_our_words_in_order_is_no_template(plain, rendered):
    """A page of that name may be anything."""
    assert placement_of(rendered, "test") is None
    assert placement_of(rendered | {PLAIN: plain}, "test") is None


@given(
    st.dictionaries(
        st.sampled_from(sorted(set(QUESTIONS) - {PLAIN})),
        st.none() | st.text() | st.sampled_from(["cacheproxy-late", PLAINLY]),
    )
)
def test_what_was_not_asked_is_unknown(rendered):
    """Whatever the other answers are."""
    placement = placement_of({PLAIN: PLAINLY, **rendered}, "test")
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


@given(st.lists(st.text()))
def test_any_tokens_make_a_text(pieces):
    """Nothing of it raises."""
    assert isinstance(text_of({"token_strs": pieces}), str)


@pytest.mark.parametrize("answer", [(200, b"{}"), (404, b""), (503, b""), (200, b"x" * 70_000)])
def test_a_page_that_goes_away_ends_the_questions(answer):
    """Nothing is known then."""
    asking = asking_traits(LLAMA_CPP.serving.rendering)
    next(asking)
    with pytest.raises(NoPageError):
        asking.send(answer)
