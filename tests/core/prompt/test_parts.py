"""What the tokens of a prompt are made of."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.prompt.parts import parts_of
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request

THOUGHT = {"type": "thinking", "thinking": "t" * 400, "signature": "s"}
SAID = [
    {"role": "user", "content": "u" * 100},
    {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "a" * 300}]},
    {"role": "user", "content": "u" * 200},
    {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "a" * 100}]},
    {"role": "user", "content": [{"type": "tool_result", "content": "r" * 500}]},
]
BODY = {"system": "s" * 1000, "tools": [{"name": "x" * 1988}], "messages": SAID}


def parts(body=BODY, tokens=None, order=PromptOrder.TOOLS_FIRST, path="/v1/messages", **template):
    """With as many tokens as characters, if they are not said."""
    prompt = prompt_of(Request("POST", path, (), json.dumps(body).encode()), order)
    return parts_of(prompt, prompt.chars if tokens is None else tokens, **template)


def near(found, *wanted):
    """A message's sign that it begins takes some characters."""
    assert found[:5] == pytest.approx(wanted, abs=80)


def test_each_part_has_its_share():
    near(parts(), 2000, 1000, 700, 800, 500)
    assert parts().order is PromptOrder.TOOLS_FIRST


@pytest.mark.parametrize("tokens", [0, 1, 7, 999, 100_000])
@pytest.mark.parametrize("order", list(PromptOrder))
def test_they_are_all_that_the_server_counted(tokens, order):
    found = parts(tokens=tokens, order=order)
    assert sum(found[:5]) == tokens
    assert min(found[:5]) >= 0


def test_what_the_template_leaves_out_is_not_there():
    """The rest has its tokens then."""
    assert parts(hides_thinking=True).thinking == 0
    assert parts(drops_thinking=True).thinking == pytest.approx(parts().thinking / 2, rel=0.1)


def test_a_first_prompt_is_new():
    near(parts(BODY | {"messages": SAID[:1]}), 2000, 1000, 0, 0, 100)


def test_a_late_system_message_counts_as_system_text_where_it_is_moved_there():
    late = [*SAID[:3], {"role": "system", "content": "l" * 600}, *SAID[3:]]
    body = {"messages": [{"role": "system", "content": "s" * 1000}, *late]}
    near(parts(body, path="/v1/chat/completions"), 0, 1000, 1300, 800, 500)
    near(
        parts(body, path="/v1/chat/completions", order=PromptOrder.HOISTED), 0, 1600, 700, 800, 500
    )


def test_reasoning_of_the_other_apis():
    said = [SAID[0], {"role": "assistant", "content": "a", "reasoning_content": "t" * 400}, SAID[2]]
    assert parts({"messages": said}, path="/v1/chat/completions").thinking == 400
    said = [SAID[0], {"type": "reasoning", "summary": [{"text": "t" * 400}]}, SAID[2]]
    assert parts({"input": said}, path="/v1/responses").thinking == pytest.approx(400, abs=80)
