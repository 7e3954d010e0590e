"""A body as the ordered segments of its prompt, and what share of the tokens each part has."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.prompt import PromptOrder, parts_of, prompt_of
from cacheproxy.testing import request
from tests import transcript

MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"
TEXT = {"type": "text", "text": "hi"}
MARK = {"cache_control": {"type": "ephemeral"}}


def segments(body, path=MESSAGES, order=PromptOrder.TOOLS_FIRST):
    """A line for each: its part, whose it is, and where it stands."""
    prompt = prompt_of(request(body, path), order)
    return "\n".join(f"{one.part.name} {one.source} {one.path}" for one in prompt.segments)


def texts(body, path=MESSAGES):
    return [segment.text for segment in prompt_of(request(body, path)).segments]


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def test_the_segments_of_each_dialect():
    transcript.holds("prompt.txt", globals())


blocks = st.sampled_from(
    [
        *("hi", None, [TEXT], [TEXT | MARK]),
        [TEXT, {"type": "tool_use", "name": "ls", "input": {"a": [1]}}],
        [{"type": "tool_result", "content": "x"}],
    ]
)
message = st.one_of(
    st.builds(said, st.sampled_from(["user", "assistant", "system", "developer", 3]), blocks),
    st.sampled_from([None, 3, "text", {"type": "function_call", "name": "ls"}]),
)
tool = st.sampled_from([{"name": "a"}, {"name": "b"} | MARK, {"function": {"name": "c"}}, None, 1])
items = st.lists(message, max_size=4) | st.just("text")
a_body = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["m", "n"]),
        "messages": items,
        "input": items,
        "system": blocks,
        "instructions": blocks,
        "prompt": st.sampled_from(["p", ["p"]]),
        "tools": st.lists(tool, max_size=3) | st.just({"name": "x"}),
    },
)
PATHS = [MESSAGES, CHAT, RESPONSES, "/v1/completions", "/api/generate"]


@given(
    st.lists(st.tuples(a_body, st.sampled_from(PATHS), st.sampled_from(PromptOrder)), max_size=5)
)
@settings(max_examples=4 * settings().max_examples)
def test_whatever_came_before_a_prompt_is_the_same(turns):
    """But what a memo knows is taken from there."""
    memo = Memo()
    for body, path, order in turns:
        plain = request(body, path)
        found, expected = prompt_of(replace(plain, memo=memo), order), prompt_of(plain, order)
        assert found == expected
        if found is not None:
            assert (found.chars, found.digests) == (expected.chars, expected.digests)
            assert found.tools == expected.tools


THOUGHT = {"type": "thinking", "thinking": "t" * 400, "signature": "s"}
SAID = [
    said("user", "u" * 100),
    said("assistant", [THOUGHT, {"type": "text", "text": "a" * 300}]),
    said("user", "u" * 200),
    said("assistant", [THOUGHT, {"type": "text", "text": "a" * 100}]),
    said("user", [{"type": "tool_result", "content": "r" * 500}]),
]
BODY = {"system": "s" * 1000, "tools": [{"name": "x" * 1988}], "messages": SAID}
LATE = [said("system", "s" * 1000), *SAID[:3], said("system", "l" * 600), *SAID[3:]]


def parts(body=BODY, tokens=None, order=PromptOrder.TOOLS_FIRST, path=MESSAGES, **template):
    """With as many tokens as characters, if they are not said."""
    prompt = prompt_of(request(body, path), order)
    return parts_of(prompt, prompt.chars if tokens is None else tokens, **template)


@pytest.mark.parametrize("order", list(PromptOrder))
def test_they_are_all_that_the_server_counted(order):
    for tokens in (0, 1, 7, 999, 100_000):
        found = parts(tokens=tokens, order=order)
        assert found.order is order
        assert sum(found[:5]) == tokens
        assert min(found[:5]) >= 0
