"""A whole message as a chat completion."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("openai")

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.translate.common.translation import TranslationError
from tests.translate.common.values import JSON

from .conversations import spelt
from .events import COMPLETION, FUNCTIONS, USAGE, exchange


def answered(body, **asked):
    """The completion for a message: a dict, or its JSON text."""
    text = body if isinstance(body, str) else json.dumps(body)
    answer = exchange(**asked).answer(200, text.encode())
    assert answer.status == 200
    value = json.loads(answer.body)
    COMPLETION.validate_python(value, strict=True)
    return value


def message(*content, reason="end_turn", **more):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(content),
        "stop_reason": reason,
        "usage": USAGE,
        **more,
    }


def choice(*content, reason="end_turn", **asked):
    [found] = answered(message(*content, reason=reason), **asked)["choices"]
    return found["message"], found["finish_reason"]


def words(text):
    return {"type": "text", "text": text}


def test_text():
    """The whole of it; the time is the caller's to say."""
    assert answered(message(words("Hel"), words("lo"))) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1234,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 1,
            "total_tokens": 101,
            "prompt_tokens_details": {"cached_tokens": 60},
        },
    }


def test_calls_have_the_text_of_their_input():
    """And thinking is beside; without text, the content is null."""
    text = '{ "b":1.0 ,"a":"\\u00e9\\ud83d", "c":1e400 }'
    block = '{"type":"tool_use","id":"t","name":"look","input":' + text + "}"
    bare = '{"type":"tool_use","id":"u","name":"bare"}'
    thought = '{"type":"thinking","thinking":"hm","signature":"s"}'
    value = answered('{"content":[' + f"{thought},{block},{bare}" + '],"stop_reason":"tool_use"}')
    [found] = value["choices"]
    assert found["finish_reason"] == "tool_calls"
    assert found["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "t", "type": "function", "function": {"name": "look", "arguments": text}},
            {"id": "u", "type": "function", "function": {"name": "bare", "arguments": "{}"}},
        ],
    }


def test_an_answer_that_says_nothing_is_an_empty_text():
    """Null is for calls: clients read a text where there are none."""
    for block in ([], [words("")], [{"type": "thinking", "thinking": "hm", "signature": ""}]):
        assert choice(*block)[0]["content"] == ""


def test_a_call_of_old():
    """For a client that knows no other."""
    block = {"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}}
    said, reason = choice(block, reason="tool_use", **FUNCTIONS)
    assert said["function_call"] == {"name": "look", "arguments": '{"a": 1}'}
    assert reason == "function_call"
    assert "tool_calls" not in said


def test_what_the_client_cannot_read_is_left_out():
    """Blocks of tools that ran on the server, and those still unknown."""
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "redacted_thinking", "data": "x"},
        {"type": ["text"]},
        {},
        7,
        words("Hello"),
    ]
    assert choice(*blocks)[0] == {"role": "assistant", "content": "Hello", "refusal": None}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_tokens", "length"), ("refusal", "content_filter"), ("new", "stop"), (None, "stop")],
)
def test_finish_reasons(reason, finish):
    """As in streams."""
    assert choice(words("a"), reason=reason)[1] == finish


def test_usage_that_is_not_given():
    """No word on it, and none on reuse where the server has none."""
    assert "usage" not in answered({"content": []})
    some = answered({"content": [], "usage": {"output_tokens": 4}})["usage"]
    assert some == {"prompt_tokens": 0, "completion_tokens": 4, "total_tokens": 4}
    plain = answered({"content": [], "usage": {"input_tokens": 3, "output_tokens": 4}})["usage"]
    assert plain == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def test_ids_and_names_that_are_not_given():
    """Ids follow from the request, the model is the client's word; others' ids are not doubled."""
    block = {"type": "tool_use", "name": "look", "input": {}}
    found = [answered({"content": [block, block]}, user=user) for user in ("a", "a", "b")]
    assert found[0] == found[1]
    assert found[0]["id"] != found[2]["id"]
    assert found[0]["model"] == "asked"
    calls = [one["id"] for value in found for one in value["choices"][0]["message"]["tool_calls"]]
    assert len(set(calls)) == 4
    assert answered({"content": [], "id": "chatcmpl-x"})["id"] == "chatcmpl-x"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>secret</html>",
        b"[]",
        b"{}",
        b'{"content":"secret"}',
        b'{"content":[{"type":"tool_use","input":{}}]}',
        b"\xff",
        b"[" * 99_999,
    ],
)
def test_what_is_no_message_is_an_error(body):
    """The text names no content."""
    with pytest.raises(TranslationError, match="the server's answer") as caught:
        exchange().answer(200, body)
    assert "secret" not in str(caught.value)


KINDS = st.sampled_from(["text", "thinking", "tool_use", "message", "error", "end_turn", "name"])
KEYS = st.sampled_from(
    ["type", "text", "thinking", "id", "name", "input", "content", "usage", "error", "stop_reason"]
)
NEAR = st.recursive(
    KINDS | JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, NEAR, max_size=5), st.lists(NEAR, max_size=3))
def test_any_json_is_an_answer_or_an_error(body, content):
    """TranslationError, and nothing else."""
    for value in (body, body | {"content": content}):
        try:
            answer = exchange().answer(200, spelt(value).encode())
        except TranslationError:
            continue
        found = json.loads(answer.body)
        if answer.status == 200:
            COMPLETION.validate_python(found, strict=True)
        else:
            assert found["error"]["message"]
