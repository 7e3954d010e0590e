"""A body as the ordered segments of its prompt."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.conversation.lanes import tools_of
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.prompt import PromptOrder, parts_of, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import request

TEXT = {"type": "text", "text": "hi"}
MARK = {"cache_control": {"type": "ephemeral"}}


def segments(body, path="/v1/messages", order=PromptOrder.TOOLS_FIRST):
    prompt = prompt_of(request(body, path), order)
    return [(segment.part, segment.path, segment.source) for segment in prompt.segments]


def texts(body, path="/v1/messages"):
    return [segment.text for segment in prompt_of(request(body, path)).segments]


def test_anthropic_messages():
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "tool_use", "id": "1", "name": "ls", "input": {"a": 1}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "content": [TEXT]}]},
            {"role": "system", "content": "news"},
        ],
        "system": [TEXT],
        "tools": [{"name": "ls"}],
    }
    assert segments(body) == [
        (Part.TOOLS, "/tools/0", "client"),
        (Part.SYSTEM, "/system/0/text", "client"),
        (Part.MESSAGES, "/messages/0/role", "client"),
        (Part.MESSAGES, "/messages/0/content", "user"),
        (Part.MESSAGES, "/messages/1/role", "client"),
        (Part.MESSAGES, "/messages/1/content/0/thinking", "model"),
        (Part.MESSAGES, "/messages/1/content/1", "model"),
        (Part.MESSAGES, "/messages/2/role", "client"),
        (Part.MESSAGES, "/messages/2/content/0", "tool"),
        (Part.MESSAGES, "/messages/2/content/0/content/0/text", "tool"),
        (Part.MESSAGES, "/messages/3/role", "client"),
        (Part.MESSAGES, "/messages/3/content", "client"),
    ]
    assert [part for part, _, _ in segments(body, order=PromptOrder.SYSTEM_FIRST)][:2] == [
        Part.SYSTEM,
        Part.TOOLS,
    ]


def test_chat_completions():
    body = {
        "messages": [
            {"role": "system", "content": "be"},
            {"role": "user", "content": [TEXT]},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "ls"}}]},
            {"role": "tool", "content": "a b"},
            {"role": "system", "content": "later"},
        ],
    }
    assert segments(body, "/v1/chat/completions") == [
        (Part.SYSTEM, "/messages/0/role", "client"),
        (Part.SYSTEM, "/messages/0/content", "client"),
        (Part.MESSAGES, "/messages/1/role", "client"),
        (Part.MESSAGES, "/messages/1/content/0/text", "user"),
        (Part.MESSAGES, "/messages/2/role", "client"),
        (Part.MESSAGES, "/messages/2/tool_calls/0", "model"),
        (Part.MESSAGES, "/messages/3/role", "client"),
        (Part.MESSAGES, "/messages/3/content", "tool"),
        (Part.MESSAGES, "/messages/4/role", "client"),
        (Part.MESSAGES, "/messages/4/content", "client"),
    ]


def test_reasoning_is_read_under_each_of_its_names_once():
    for names in (["reasoning_content"], ["reasoning"], ["reasoning_content", "reasoning"]):
        said = {"role": "assistant", "content": "yes"} | dict.fromkeys(names, "so")
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}, said]}
        thoughts = [path for _, path, _ in segments(body, "/v1/chat/completions") if "reas" in path]
        assert thoughts == [f"/messages/1/{names[0]}"]


def test_responses():
    body = {
        "instructions": "be",
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "dev"}]},
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "function_call", "id": "x", "name": "ls", "arguments": "{}"},
            {"type": "function_call_output", "output": "a"},
        ],
    }
    assert segments(body, "/v1/responses") == [
        (Part.SYSTEM, "/instructions", "client"),
        (Part.SYSTEM, "/input/0/role", "client"),
        (Part.SYSTEM, "/input/0/content/0/text", "client"),
        (Part.MESSAGES, "/input/1/role", "client"),
        (Part.MESSAGES, "/input/1/content", "user"),
        (Part.MESSAGES, "/input/2", "model"),
        (Part.MESSAGES, "/input/3", "tool"),
    ]


def test_prompts_that_are_one_text():
    """It is the user's, for nobody else can be told."""
    whole = "user"
    assert segments({"input": "hi"}, "/v1/responses") == [(Part.MESSAGES, "/input", whole)]
    for body in ({"prompt": "all"}, {"prompt": "all", "tools": [{"name": "unread"}]}):
        assert segments(body, "/v1/completions") == [(Part.MESSAGES, "/prompt", whole)]
    assert segments({"system": "be", "prompt": "hi"}, "/api/generate") == [
        (Part.SYSTEM, "/system", "client"),
        (Part.MESSAGES, "/prompt", whole),
    ]


def test_gemini():
    body = {
        "systemInstruction": {"parts": [{"text": "be"}]},
        "tools": [{"functionDeclarations": [{"name": "ls"}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "ls"}, "thoughtSignature": "x"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "ls"}}]},
        ],
    }
    assert segments(body, "/v1beta/models/g:streamGenerateContent?alt=sse") == [
        (Part.TOOLS, "/tools/0/functionDeclarations/0", "client"),
        (Part.SYSTEM, "/systemInstruction/parts/0/text", "client"),
        (Part.MESSAGES, "/contents/0/role", "client"),
        (Part.MESSAGES, "/contents/0/parts/0/text", "user"),
        (Part.MESSAGES, "/contents/1/role", "client"),
        (Part.MESSAGES, "/contents/1/parts/0", "model"),
        (Part.MESSAGES, "/contents/2/role", "client"),
        (Part.MESSAGES, "/contents/2/parts/0", "tool"),
    ]
    assert "thoughtSignature" not in "".join(texts(body, "/v1/models/g:generateContent"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"system": "hi"}, {"system": [TEXT | MARK]}),
        (
            {"messages": [{"role": "user", "content": "hi"}]},
            {"messages": [{"content": [MARK | TEXT], "role": "user"}]},
        ),
        ({"tools": [{"name": "a"} | MARK]}, {"tools": [{"name": "a"}]}),
    ],
)
def test_what_reads_alike_is_alike(one, other):
    """Breakpoints, forms and the order of keys outside tools are no part of a prompt."""
    assert "".join(texts(one)) == "".join(texts(other))


@pytest.mark.parametrize("place", ["first", "middle", "last", "alone"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_tool_reads_the_same_with_a_breakpoint_and_without(place, separators):
    """Whatever the spelling: it is the client's own, for printing anew takes ten times longer."""
    bare = {} if place == "alone" else {"name": "é", "description": "d"}
    items = list(bare.items())
    items.insert({"first": 0, "middle": 1}.get(place, len(items)), ("cache_control", {"a": [1]}))
    spelled = [json.dumps({"tools": [tool]}, separators=separators) for tool in (bare, dict(items))]
    assert texts(spelled[0]) == texts(spelled[1])


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": [{"b": 1, "a": 2}]},
        {"system": "ho"},
        {"messages": [{"role": "assistant", "content": "hi"}]},
    ],
)
def test_what_reads_otherwise_differs(changes):
    body = {
        "tools": [{"a": 2, "b": 1}],
        "system": "hi",
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert texts(body) != texts(body | changes)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"no", "/v1/messages"),
        (b"{}", "/v1/messages"),
        (b'{"messages": 3, "system": {}, "tools": "x"}', "/v1/messages"),
        (b'{"messages": [{"role": "user", "content": "hi"}]}', "/v1/models"),
    ],
)
def test_what_has_no_prompt(body, path):
    assert prompt_of(Request("POST", path, body=body)) is None


blocks = st.sampled_from(
    [
        "hi",
        [TEXT],
        [TEXT | MARK],
        [TEXT, {"type": "tool_use", "name": "ls", "input": {"a": [1]}}],
        [{"type": "tool_result", "content": "x"}],
        None,
    ]
)
message = st.one_of(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system", "developer", 3]),
        blocks,
    ),
    st.sampled_from([None, 3, "text", {"type": "function_call", "name": "ls"}]),
)
tool = st.sampled_from([{"name": "a"}, {"name": "b"} | MARK, {"function": {"name": "c"}}, None, 1])
a_body = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["m", "n"]),
        "messages": st.one_of(st.lists(message, max_size=4), st.just("text")),
        "input": st.one_of(st.lists(message, max_size=4), st.just("text")),
        "system": blocks,
        "instructions": blocks,
        "prompt": st.sampled_from(["p", ["p"]]),
        "tools": st.one_of(st.lists(tool, max_size=3), st.just({"name": "x"})),
    },
)
PATHS = [f"/v1/{end}" for end in ("messages", "chat/completions", "responses", "completions")]
PATHS += ["/api/generate"]


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
            assert tools_of(found) == tools_of(expected)


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
