"""Path, headers and parameters of a request; and that nothing at all is an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import request
from cacheproxy.translate.chat import ChatToMessages
from cacheproxy.translate.common.translation import TranslationError
from tests.translate.common.values import JSON

from .conversations import MESSAGES, PATH, spelt, turned, up

HI = {"role": "user", "content": "hi"}


def body(**parameters):
    said = up({"messages": [HI], **parameters})
    del said["messages"]
    return said


def headers(**given):
    asked = {name.replace("_", "-"): value for name, value in given.items()}
    sent = ChatToMessages(created=0).request(request({"messages": [HI]}, PATH, asked)).headers
    return {name.decode().lower(): value.decode() for name, value in sent}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/v1/chat/completions", "/v1/messages"),
        ("/openai/v1/chat/completions/?api-version=1", "/openai/v1/messages"),
        ("/chat/completions", "/messages"),
    ],
)
def test_path(before, after):
    """What stands before it is kept, a query is dropped."""
    asked = ChatToMessages(created=0).request(request({"messages": [HI]}, before))
    assert (asked.method, asked.target) == ("POST", after)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/messages", "/apply-template", "/"])
def test_other_paths_are_refused(path):
    """They have no counterpart."""
    with pytest.raises(TranslationError, match=r"chat/completions"):
        ChatToMessages(created=0).request(request({"messages": [HI]}, path))


def test_the_token_becomes_the_key():
    """And the version is stated; what only OpenAI's servers read is dropped."""
    sent = headers(
        Authorization="Bearer  secret",
        OpenAI_Organization="o",
        openai_project="p",
        openai_beta="b",
        Content_Length="7",
        Accept_Encoding="gzip",
        X_Session_Id="s",
        content_type="application/json",
    )
    assert sent == {
        "x-api-key": "secret",
        "anthropic-version": "2023-06-01",
        "accept-encoding": "identity",
        "x-session-id": "s",
        "content-type": "application/json",
    }


def test_a_key_and_a_version_of_the_client_s_own_stay():
    """And a way to log in that is no token."""
    sent = headers(x_api_key="k", authorization="Bearer other", anthropic_version="2099")
    assert (sent["x-api-key"], sent["anthropic-version"]) == ("k", "2099")
    assert "authorization" not in sent
    assert headers(authorization="Basic abc")["authorization"] == "Basic abc"


def test_parameters():
    """In the server's names; messages come last."""
    asked = (
        '{"messages":[{"role":"user","content":"hi"}],"model":"m","max_tokens":12,"temperature":0.75,'
        '"top_p":1.0,"top_k":40,"stop":["a","b"],"user":"u","stream":true,'
        '"stream_options":{"include_usage":true},"chat_template_kwargs":{ "enable_thinking":false},'
        '"seed":1,"logit_bias":{},"presence_penalty":1,"store":false,"n":1,"logprobs":false,'
        '"service_tier":"auto","metadata":{"a":"b"},"unheard_of":[1]}'
    )
    assert turned(asked).body.decode() == (
        '{"model":"m","max_tokens":12,"temperature":0.75,"top_p":1.0,"top_k":40,'
        '"stop_sequences":["a","b"],"metadata":{"user_id":"u"},'
        '"chat_template_kwargs":{ "enable_thinking":false},"stream":true,'
        '"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}'
    )


def test_a_limit_is_always_given():
    """Anthropic's API demands one; the newer name counts; -1 is none."""
    assert body() == body(max_tokens=None) == body(max_tokens=-1) == {"max_tokens": 8192}
    assert body(max_tokens=7) == {"max_tokens": 7}
    assert body(max_tokens=7, max_completion_tokens=9) == {"max_tokens": 9}
    assert up({"messages": [HI]}, max_tokens=5)["max_tokens"] == 5


@pytest.mark.parametrize(("asked", "sent"), [(0, 0), (0.5, 0.5), (1, 1), (1.0001, 1), (2, 1)])
def test_temperature_is_at_most_one(asked, sent):
    """OpenAI's goes to 2."""
    assert body(temperature=asked)["temperature"] == sent


@pytest.mark.parametrize(
    ("stop", "sent"), [("x", ["x"]), (["x", ""], ["x"]), ("", None), ([], None), (None, None)]
)
def test_stop(stop, sent):
    """One or several; an empty one never stops anything."""
    assert body(stop=stop).get("stop_sequences") == sent


def test_a_schema_for_the_answer():
    """In its own text; JSON without a schema is for the prompt to say."""
    form = (
        '{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{ "b":1,"a":1.0}}}'
    )
    said = turned('{"messages":[],"response_format":' + form + "}").body
    assert b'"output_config":{"format":{"type":"json_schema","schema":{ "b":1,"a":1.0}}}' in said
    for plain in ({"type": "text"}, {"type": "json_object"}, None):
        assert "output_config" not in body(response_format=plain)


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"n": 2}, "/n"),
        ({"n": "2"}, "/n"),
        ({"logprobs": True}, "/logprobs"),
        ({"top_logprobs": 3}, "/top_logprobs"),
        ({"modalities": ["text", "audio"]}, "/modalities"),
        ({"model": 7}, "/model"),
        ({"max_tokens": "7"}, "/max_tokens"),
        ({"max_completion_tokens": True}, "/max_completion_tokens"),
        ({"temperature": "hot"}, "/temperature"),
        ({"top_p": []}, "/top_p"),
        ({"stop": 7}, "/stop"),
        ({"stop": ["a", 7]}, "/stop/1"),
        ({"stream": "yes"}, "/stream"),
        ({"response_format": {"type": "json_schema"}}, "/response_format/json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 7}}},
            "/response_format/json_schema/schema",
        ),
    ],
)
def test_what_cannot_be_granted_is_refused_by_its_place(parameters, place):
    """Before anything goes up."""
    with pytest.raises(TranslationError) as caught:
        body(**parameters)
    assert caught.value.place == place


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "1" + "0" * 400])
def test_a_number_is_finite(number):
    """JSON has no others."""
    with pytest.raises(TranslationError):
        turned('{"messages":[],"temperature":' + number + "}")


def test_large_and_small_numbers():
    """They mean what the nearest double means."""
    assert body(top_k=10**20, top_p=1e-7) == {"max_tokens": 8192, "top_k": 1e20, "top_p": 1e-7}


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"7", b'{"messages":', b"\xff{}", b"{" * 99_999, b'{"a":' * 99_999]
)
def test_what_is_no_object_is_refused(text):
    """However long it is."""
    with pytest.raises(TranslationError):
        turned(text)


def test_deep_arguments_and_schemas_are_no_trouble():
    """What can be read goes on, what cannot is refused."""
    for depth in (50, 500, 900, 1_500, 50_000):
        deep = '{"a":' * depth + "1" + "}" * depth
        call = {"id": "a", "function": {"name": "f", "arguments": deep}}
        tool = '{"type":"function","function":{"name":"f","parameters":' + deep + "}}"
        bodies = [
            json.dumps({"messages": [{"role": "assistant", "tool_calls": [call]}]}),
            '{"messages":[],"tools":[' + tool + "]}",
        ]
        for one in bodies:
            try:
                assert turned(one).body
            except TranslationError:
                assert depth > 500


FIELDS = st.sampled_from(
    [
        "model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k",
        "stop", "user", "stream", "stream_options", "response_format", "tools", "tool_choice",
        "functions", "function_call", "parallel_tool_calls", "n", "logprobs", "modalities",
        "chat_template_kwargs",
    ]
)  # fmt: skip


@given(st.dictionaries(FIELDS, JSON, max_size=6), MESSAGES | JSON, st.lists(JSON, max_size=2))
def test_any_json_goes_up_or_is_refused(parameters, messages, more):
    """With TranslationError, and nothing else is ever raised."""
    if isinstance(messages, list):
        messages = messages + more
    text = spelt({"messages": messages, **parameters})
    try:
        sent = ChatToMessages(created=0).request(Request("POST", PATH, (), text.encode()))
    except TranslationError:
        return
    assert isinstance(sent.json["messages"], list)
    assert isinstance(sent.json["max_tokens"], int | float)


KEYS = st.sampled_from(
    [
        "role", "content", "type", "text", "image_url", "url", "file", "file_data", "tool_calls",
        "function_call", "function", "name", "arguments", "id", "tool_call_id", "parameters",
        "description", "cache_control", "refusal", "reasoning_content",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    ["user", "assistant", "tool", "function", "system", "text", "image_url", "file", "data:", "{}"]
)
NEAR = st.recursive(
    VALUES | JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(NEAR, max_size=3), NEAR, NEAR, NEAR)
def test_what_is_nearly_right_goes_up_or_is_refused(messages, tools, choice, functions):
    """The same, where the names are those of the API."""
    body = {"messages": messages, "tools": tools, "tool_choice": choice, "functions": functions}
    for tried in (body, {"messages": messages}, {"messages": [], "tools": [tools]}):
        try:
            sent = turned(spelt(tried))
        except TranslationError:
            continue
        assert isinstance(sent.json["messages"], list)
