"""What the answers of a chat template say about late system messages."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.placement.placement import Late, Placement, Treatment
from cacheproxy.core.servers.llama_cpp import LLAMA_CPP
from cacheproxy.core.template.rendering import (
    PLAIN,
    asking,
    body_of,
    first_questions,
    placement_of,
    read,
    text_of,
    tool_questions,
)
from tests.core.templates import (
    RefusedError,
    as_user,
    asked,
    drop,
    hoist,
    inline,
    strict,
    thinking,
    turns,
)

QUESTIONS = first_questions() | tool_questions()
VLLM = ["<|im_start|>", "s", "ystem", "Ċ", "cache", "pro", "xy", "-", "head", "Ċ", "Ã", "¼", "n"]
VLLM += ["Ã", "¯", "Ġ", "2", "2", "ĠNo", "v", "<|im_end|>", "Ċ"]
"""As vLLM 0.32 answers to ``cacheproxy-head\\nünï 22 Nov``."""


def ask(template):
    return asked(asking(LLAMA_CPP.rendering), template)[0]


@pytest.mark.parametrize(
    ("template", "late", "lead"),
    [
        (inline, Late.INLINE, Late.INLINE),
        (as_user, Late.USER, Late.INLINE),
        (hoist, Late.HOISTED, Late.INLINE),
        (drop, Late.DROPPED, Late.DROPPED),
        (strict, Late.REFUSED, Late.REFUSED),
        (turns, Late.REFUSED, Late.REFUSED),
    ],
)
def test_each_kind_of_template_is_told_by_its_text(template, late, lead):
    """For both roles; one of these wants roles in turns, behind a tool's result, too."""
    treatment, joins = Treatment(late, lead), template is turns
    placement = ask(template)
    assert bool(placement.refuses) is joins  # a user's own message behind a tool's result
    placement = replace(placement, refuses=())
    assert placement == Placement(treatment, treatment, joins, joins, told_by="/apply-template")


def test_behind_a_tools_result_what_costs_the_least_is_chosen():
    """Reasoning that goes at the next user message stays if the late one joins the result."""

    def refuses(messages, tools=None):
        return strict(messages) and thinking(messages, tools)

    def as_users(messages, tools=None):
        roles = [
            m if not n or m["role"] != "system" else m | {"role": "user"}
            for n, m in enumerate(messages)
        ]
        return thinking(roles, tools)

    assert ask(refuses).joins_tool
    assert not ask(strict).joins_tool
    placement = ask(as_users)
    assert placement.system == Treatment(Late.USER, Late.INLINE, costs=True)
    assert placement.places
    assert not placement.moves("system", leads=False)
    assert placement.moves("system", leads=False, behind=True)


def test_ids_and_tools_that_are_refused_are_told():
    """Ids can be mended, the tools themselves not."""

    def nine(messages, tools=None):
        if any(len(m.get("tool_call_id", "123456789")) != 9 for m in messages):
            raise RefusedError
        return inline(messages, tools)

    def no_tools(messages, tools=None):
        if any(m["role"] == "tool" for m in messages):
            raise RefusedError
        return inline(messages, tools)

    assert ask(nine).short_ids
    assert ask(no_tools).refuses
    assert "refuses calls of tools" in ask(no_tools).says
    assert not ask(inline).short_ids


def test_the_last_system_text_may_take_the_place_of_the_first():
    """As in DeepSeek's of R1: a late one stands at the head then, and of two there one is lost."""

    def last_wins(messages, tools=None):
        system = [m for m in messages if m["role"] == "system"]
        return inline([*system[-1:], *(m for m in messages if m not in system)], tools)

    placement = ask(last_wins)
    assert placement.system == Treatment(Late.HOISTED, Late.DROPPED)
    assert placement.moves("system", leads=True)


def test_the_roles_are_told_apart():
    """A template may know one of them alone."""

    def only_system(messages, tools=None):
        if any(m["role"] == "developer" for m in messages):
            raise RefusedError
        return inline(messages, tools)

    placement = ask(only_system)
    assert placement.system == Treatment(Late.INLINE, Late.INLINE)
    assert placement.developer == Treatment(Late.REFUSED, Late.REFUSED)
    assert placement.places


def test_a_server_that_renders_not_even_a_plain_conversation_tells_nothing():
    def refuses(messages, tools=None):
        raise RefusedError

    assert asked(asking(LLAMA_CPP.rendering), refuses) == (None, 1)


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


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"prompt": "a"}, "a"),
        ({"count": 2, "tokens": [1, 2], "token_strs": ["a", "b"]}, "ab"),
        ({"tokens": [1]}, None),
        ({"token_strs": ["a", None]}, None),
        ({"token_strs": None, "prompt": 1}, None),
        ([], None),
        ("prompt", None),
        (None, None),
    ],
)
def test_the_text_of_either_server(answer, text):
    """llama-server gives a text, vLLM tokens."""
    assert text_of(answer) == text


DEEPSEEK = "<\uff5cbegin▁of▁sentence\uff5c>"
"""A mark of a byte-level tokenizer that has SentencePiece's space in its name."""


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (VLLM, "<|im_start|>system\ncacheproxy-head\nünï 22 Nov<|im_end|>\n"),
        (["<s>", "▁a", "▁head", "<0x0A>", "▁gr", "<0xC3>", "<0xBC>", "n"], "<s> a head\n grün"),
        ([DEEPSEEK, "a", "Ġb", "Ġc", "ĊĊ", "d"], f"{DEEPSEEK}a b c\n\nd"),
    ],
    ids=["byte level", "SentencePiece", "DeepSeek's"],
)
def test_tokens_become_text(pieces, text):
    """Spaces, line ends, letters beyond ASCII and bytes without a token come back."""
    assert text_of({"token_strs": pieces}) == text


@given(st.lists(st.text()))
def test_any_tokens_make_a_text(pieces):
    """Nothing of it raises."""
    assert isinstance(text_of({"token_strs": pieces}), str)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000, b'{"prompt": 1}', b"null"])
def test_a_body_that_is_no_answer(body):
    """It tells nothing, and raises nothing; we asked for a dozen words, not for megabytes."""
    assert read(body) is None
    large = json.dumps({"prompt": "x" * (4 << 20)}).encode()
    assert read(large) is None
    assert read(large, len(large)) is not None
