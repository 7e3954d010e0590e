"""A Messages request as a chat request."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import request
from cacheproxy.translate.reading import TranslationError
from cacheproxy.translate.translation import MessagesToChat
from tests.translate.values import JSON, TEXT

from .conversations import MESSAGES, chat, spelt, turned

HELLO = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
SCHEMA = {"type": "object", "properties": {"z": {"type": "number", "maximum": 1e5}, "a": {}}}
TOOL = {"name": "look", "description": "Look.", "input_schema": SCHEMA}
KEYS = st.sampled_from(
    [
        *("system", "messages", "tools", "tool_choice", "stop_sequences", "metadata", "stream"),
        *("role", "content", "type", "text", "source", "input", "id", "name", "tool_use_id"),
        *("input_schema", "max_tokens", "temperature", "output_config", "format", "model"),
    ]
)
WORDS = st.sampled_from(
    [
        *("user", "assistant", "system", "text", "image", "document", "tool_use", "tool_result"),
        *("thinking", "base64", "url", "json_schema", "tool", "any", "web_search_20250305"),
    ]
)
NEARLY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/messages", "/v1/chat/completions"),
        ("/v1/messages?beta=true", "/v1/chat/completions"),
        ("/some/where/v1/messages/", "/some/where/v1/chat/completions"),
    ],
)
def test_the_path_keeps_what_stands_before_it(target, expected):
    """The query, a matter between client and Anthropic, is dropped."""
    assert MessagesToChat(request(HELLO, target)).sent.target == expected


def test_another_path_is_refused():
    """Counting, batches and the rest are not this translation's."""
    with pytest.raises(TranslationError, match="counterpart"):
        MessagesToChat(request(HELLO, "/v1/messages/count_tokens"))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"X-Api-Key": "k"}, {"Authorization": "Bearer k"}),
        ({"X-Api-Key": "k", "authorization": "Bearer a"}, {"authorization": "Bearer a"}),
        (
            {
                "Anthropic-Version": "2023-06-01",
                "anthropic-beta": "x",
                "anthropic-dangerous-direct-browser-access": "true",
                "Accept-Encoding": "gzip, br",
                "Content-Length": "3",
                "X-Session-Id": "s",
            },
            {"X-Session-Id": "s"},
        ),
    ],
)
def test_headers(sent, expected):
    """The key becomes a bearer token; what is Anthropic's own goes; answers come uncompressed."""
    asked = request(HELLO, headers=sent)
    headers = MessagesToChat(asked).sent.headers
    got = {name.decode(): value.decode() for name, value in headers}
    assert got == expected | {"Accept-Encoding": "identity"}


def test_parameters():
    """Each is said in the other API's words, numbers as they are spelt."""
    body = json.dumps(
        HELLO
        | {
            "top_p": 0.5,
            "top_k": 40,
            "stop_sequences": ["a", "b"],
            "metadata": {"user_id": "u"},
            "stream": True,
            "tools": [TOOL],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        }
    )
    asked = turned(body[:-1] + ', "temperature": 1.0e-1}')
    assert b'"temperature":1.0e-1' in asked.body
    got = json.loads(asked.body)
    assert got == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 9,
        "temperature": 0.1,
        "top_p": 0.5,
        "top_k": 40,
        "stop": ["a", "b"],
        "user": "u",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": "Look.", "parameters": SCHEMA},
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }


def test_unknown_parameters_are_dropped():
    """A new parameter of the API must not stop a client."""
    more = {
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": []},
        "service_tier": "auto",
        "brand_new": {"x": [1]},
        "cache_control": {"type": "ephemeral"},
    }
    assert chat(HELLO | more) == chat(HELLO)


@pytest.mark.parametrize("where", ["output_config", "output_format"])
def test_a_json_schema_for_the_answer_is_handed_on(where):
    """Its text is the client's own."""
    wanted = {"type": "json_schema", "schema": SCHEMA}
    got = chat(HELLO | {where: {"format": wanted} if where == "output_config" else wanted})
    assert got["response_format"]["json_schema"]["schema"] == SCHEMA
    assert json.dumps(got["response_format"]["json_schema"]["schema"]) == json.dumps(SCHEMA)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "look", "disable_parallel_tool_use": False},
            {
                "tool_choice": {"type": "function", "function": {"name": "look"}},
                "parallel_tool_calls": True,
            },
        ),
    ],
)
def test_tool_choice(choice, expected):
    """Only with tools: chat servers refuse a choice among none."""
    got = chat(HELLO | {"tools": [TOOL], "tool_choice": choice})
    assert {name: got[name] for name in expected} == expected
    assert ("parallel_tool_calls" in got) == ("parallel_tool_calls" in expected)
    assert chat(HELLO | {"tools": [], "tool_choice": choice}) == chat(HELLO)


def test_a_schema_keeps_its_own_text():
    """Templates print it: order, spaces and numbers count."""
    schema = '{ "type":"object", "properties":{"b":{"maximum":1.50e2},"a":{}} ,"x":"\\u00e9"}'
    body = json.dumps(HELLO)[:-1] + f',"tools":[{{"name":"look","input_schema":{schema}}}]}}'
    assert f'"description":"","parameters":{schema}}}'.encode() in turned(body).body


def test_tools_that_anthropic_runs_are_left_out():
    """No chat server runs them; a tool with a schema of its own stays, whatever its type."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    tools = [search, TOOL | {"type": "custom"}, search | {"input_schema": SCHEMA}]
    got = chat(HELLO | {"tools": tools})["tools"]
    assert [tool["function"]["name"] for tool in got] == ["look", "web_search"]


TEXT_BLOCK = {"type": "text", "text": ""}
RESULT = {"type": "tool_result", "tool_use_id": "t"}
IMAGE = {"type": "image", "source": {"type": "file"}}


def said(role, content):
    return {"messages": [{"role": role, "content": content}]}


WRONG = {
    "/messages": {"messages": "hi"},
    "/messages/0": {"messages": [7]},
    "/messages/0/role": said("robot", "x"),
    "/messages/0/content": {"messages": [{"role": "user"}]},
    "/messages/0/content/0": said("user", ["x"]),
    "/messages/0/content/0/type": said("user", [{"type": "new"}]),
    "/messages/0/content/1/text": said("user", [TEXT_BLOCK, {"type": "text", "text": 1}]),
    "/messages/0/content/0/tool_use_id": said("user", [{"type": "tool_result", "content": "x"}]),
    "/messages/0/content/0/content/0/source/type": said("user", [RESULT | {"content": [IMAGE]}]),
    "/messages/0/content/0/input": said(
        "assistant", [{"type": "tool_use", "id": "t", "name": "n"}]
    ),
    "/messages/0/content/0/source": said("user", [{"type": "image"}]),
    "/system/0": {"system": [{"type": "image", "source": {"type": "url", "url": "x"}}]},
    "/system": {"system": 7},
    "/tools": {"tools": {}},
    "/tools/0/input_schema": {"tools": [{"name": "look"}]},
    "/tools/1/input_schema": {"tools": [TOOL, {"type": "bash_20250124", "name": "bash"}]},
    "/tools/0/name": {"tools": [{"input_schema": {}}]},
    "/tool_choice/type": {"tools": [TOOL], "tool_choice": {"type": "some"}},
    "/tool_choice/name": {"tools": [TOOL], "tool_choice": {"type": "tool"}},
    "/max_tokens": {"max_tokens": "9"},
    "/temperature": {"temperature": True},
    "/stop_sequences/1": {"stop_sequences": ["a", None]},
    "/stream": {"stream": "yes"},
    "/model": {"model": 3},
    "/output_config/format/schema": {"output_config": {"format": {"type": "json_schema"}}},
}


@pytest.mark.parametrize("place", WRONG)
def test_what_is_wrong_is_named_by_its_place(place):
    """And by it alone: nothing of what was sent stands in the message."""
    with pytest.raises(TranslationError) as caught:
        chat(HELLO | WRONG[place])
    assert caught.value.place == place
    assert str(caught.value).startswith(f"{place}: ")
    assert "robot" not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff{}", b"\xef\xbb\xbf{}", b"{}x"])
def test_what_is_no_json_object_is_refused(body):
    """Compressed bodies too."""
    with pytest.raises(TranslationError):
        MessagesToChat(Request("POST", "/v1/messages", (), body))


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"messages":' + "[" * 5_000 + "]" * 5_000 + "}"])
def test_what_is_nested_too_deeply_is_refused(deep):
    """It must not end in a RecursionError."""
    with pytest.raises(TranslationError):
        turned(deep)


def refused_or_written(body):
    """Nothing but TranslationError is raised, and what comes out is JSON."""
    try:
        asked = turned(body)
    except TranslationError:
        return False
    json.loads(asked.body.decode(), parse_constant=pytest.fail)
    return True


@given(st.dictionaries(KEYS, NEARLY))
def test_no_json_breaks_it(body):
    """Whatever stands where."""
    refused_or_written(json.dumps(body))


@given(
    st.fixed_dictionaries(
        {"messages": st.lists(NEARLY, max_size=3)},
        optional={"tools": st.lists(NEARLY, max_size=3), "system": NEARLY, "tool_choice": NEARLY},
    )
)
def test_no_json_in_its_place_breaks_it(body):
    """Whatever stands in messages and tools."""
    refused_or_written(json.dumps(body))


@given(st.binary(max_size=60) | st.text(string.printable, max_size=60).map(str.encode))
def test_no_bytes_break_it(body):
    """Nor what is no JSON at all."""
    refused_or_written(body)


@given(MESSAGES, TEXT, JSON)
def test_what_is_right_is_taken(messages, system, more):
    """Every conversation made of the blocks we know is translated."""
    body = spelt({"messages": messages, "system": system, "more": more})
    assert refused_or_written(body)
