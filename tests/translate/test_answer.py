"""A whole chat completion, or an error, as a Messages answer."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("anthropic")

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.translate.reading import TranslationError
from tests.translate.values import JSON

from .chunks import MESSAGE, USAGE, exchange


def completion(message=None, finish="stop", **more):
    choice = {"index": 0, "message": message or {}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": USAGE, **more}


def answer(value, status=200, spellings=None, **asked):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return exchange(spellings, **asked).answer(status, body)


def message(value, **more):
    got = answer(value, **more)
    assert got.status == 200
    return json.loads(MESSAGE.validate_json(got.body, strict=True) and got.body)


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_a_message():
    """Thinking, text, calls, and the usage in Anthropic's arithmetic."""
    assert message(
        completion(
            {
                "role": "assistant",
                "reasoning_content": "hm",
                "content": "Hello",
                "tool_calls": [call("look", '{"a": 1}', id="call_a")],
            },
            "tool_calls",
        )
    ) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "call_a", "name": "look", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 40,
            "cache_read_input_tokens": 60,
            "output_tokens": 7,
        },
    }


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({}, {"input_tokens": 0, "output_tokens": 0}),
        ({"prompt_tokens": 9}, {"input_tokens": 9, "output_tokens": 0}),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None},
            {"input_tokens": 9, "output_tokens": 2},
        ),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}},
            {"input_tokens": 9, "cache_read_input_tokens": 0, "output_tokens": 0},
        ),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 10}},
            {"input_tokens": 9, "output_tokens": 0},
        ),
        (
            {"prompt_tokens": 9, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3},
            {"input_tokens": 3, "cache_read_input_tokens": 6, "output_tokens": 0},
        ),
        (
            {
                "prompt_tokens": 389,
                "prompt_tokens_details": {"cached_tokens": 256, "created_cache_tokens": 128},
            },
            {
                "input_tokens": 5,
                "cache_creation_input_tokens": 128,
                "cache_read_input_tokens": 256,
                "output_tokens": 0,
            },
        ),
    ],
)
def test_what_the_server_does_not_say_of_usage_is_left_out(said, usage):
    """But for two counts that the API needs. The three of the prompt are parts of it."""
    assert message(completion({"content": "a"}, usage=said))["usage"] == usage


def test_input_is_the_model_s_own_text():
    """And it is remembered for when the client sends it back."""
    spellings = Spellings()
    text = '{"b": 1.0,  "a": "\\u00e9\\ud83d"}'
    got = answer(completion({"tool_calls": [call("n", text, id="x")]}), spellings=spellings)
    assert f'"input":{text}'.encode() in got.body
    assert spellings.find("x", "", json.loads(text)) == text


@pytest.mark.parametrize("arguments", ["", " ", None])
def test_no_arguments_are_an_empty_input(arguments):
    """Some servers write nothing for a tool that takes nothing."""
    [block] = message(completion({"tool_calls": [call("n", arguments, id="x")]}))["content"]
    assert block["input"] == {}


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "7", '"x"', "rm -rf", '{"a":NaN}'])
def test_arguments_that_are_no_object_are_shown_as_they_are(arguments):
    """A tool must not run with a guess at what was meant."""
    spellings = Spellings()
    value = completion({"tool_calls": [call("n", arguments, id="x")]}, "length")
    [block] = message(value, spellings=spellings)["content"]
    assert block["input"] == {"INVALID_JSON": arguments}
    assert spellings.find("x", "as it came", {}) == "as it came"


def test_other_shapes():
    """A function_call, arguments as an object, a content of parts, a refusal, no model."""
    old = completion({"function_call": {"name": "n", "arguments": "{}"}}, "function_call")
    [block] = message(old)["content"]
    assert block["id"].startswith("toolu_")
    [block] = message(completion({"tool_calls": [call("n", {"a": 1}, id="x")]}))["content"]
    assert block["input"] == {"a": 1}
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    got = message(completion({"content": parts}, model=None))
    assert got["content"] == [{"type": "text", "text": "Hello"}]
    assert got["model"] == "asked"
    got = message(completion({"content": None, "refusal": "No."}))
    assert got["content"] == [{"type": "text", "text": "No."}]
    assert got["stop_reason"] == "refusal"
    assert message(completion(id="msg_x"))["id"] == "msg_x"  # not doubled
    bare = message({"choices": [{"message": {"content": "Hello"}}]})
    assert bare["usage"]["output_tokens"] == 0
    assert bare["id"] == message({"choices": [{"message": {"content": "Hello"}}]})["id"]


@pytest.mark.parametrize(
    "value",
    [
        b"oops",
        b"[]",
        b"{}",
        {"choices": []},
        {"choices": [{"index": 1, "message": {"content": "x"}}]},
        completion({"tool_calls": [{"id": "x"}]}),
        completion({"content": "x"}, "error"),
    ],
)
def test_an_answer_without_sense_is_none(value):
    """The proxy says 502."""
    with pytest.raises(TranslationError):
        answer(value)


OPENAI = "This model's maximum context length is 8192 tokens. However, "
LLAMA = "request (9000 tokens) exceeds the available context size (8192 tokens)"
LONG = "prompt is too long: 9000 tokens > 8192 maximum"
SHORTER = (
    "input length and `max_tokens` exceed context limit: 8000 + 500 > 8192, "
    "decrease input length or `max_tokens` and try again"
)
BOTH = OPENAI + "you requested 9500 tokens (9000 in the messages, 500 in the completion)."
COMPLETION = OPENAI + "you requested 8500 tokens (8000 in the messages, 500 in the completion)."
VLLM = (
    OPENAI + "you requested 500 output tokens and your prompt contains at least 8000 input "
    "tokens, for a total of at least 8500 tokens."
)
VLLM_MAX_TOKENS = (
    "'max_tokens' or 'max_completion_tokens' is too large: 500. This model's "
    "maximum context length is 8192 tokens and your request has 8000 input tokens"
)
VLLM_DECODER = (
    "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure"
)
SGLANG = "The input (9000 tokens) is longer than the model's context length (8192 tokens)."
SGLANG_BOTH = (
    "Requested token count exceeds the model's maximum context length of 8192 "
    "tokens. You requested a total of 8500 tokens: 8000 tokens from the input messages "
    "and 500 tokens for the completion."
)
CODE = {"code": "context_length_exceeded"}
COUNTED = {"type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}


@pytest.mark.parametrize(
    ("message", "more", "expected"),
    [
        ("x", COUNTED, LONG),
        (f"{LLAMA}, try", {}, LONG),
        (OPENAI + "your messages resulted in 9000 tokens. Please reduce", CODE, LONG),
        *((message, {}, LONG) for message in (BOTH, VLLM_DECODER, SGLANG)),
        *((message, {}, SHORTER) for message in (COMPLETION, VLLM, VLLM_MAX_TOKENS, SGLANG_BOTH)),
        ("Too much.", CODE, "prompt is too long: Too much."),
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_prompt_that_does_not_fit_is_said_in_anthropic_s_words(message, more, expected, status):
    """Clients read the numbers, and compact the conversation or ask for less."""
    got = answer({"error": {"message": message, **more}}, status)
    assert got.status == 400
    assert json.loads(got.body)["error"] == {"type": "invalid_request_error", "message": expected}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors_keep_their_status_and_message(status, kind):
    """The type is Anthropic's for the status."""
    got = answer({"error": {"message": "Loading model", "type": "x", "code": status}}, status)
    assert got.status == status
    assert json.loads(got.body) == {
        "type": "error",
        "error": {"type": kind, "message": "Loading model"},
        "request_id": None,
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error": "boom"}', "boom"),
        (b'{"message": "boom", "object": "error"}', "boom"),
        (b'{"detail": "boom"}', "boom"),
        (b'{"detail": [{"loc": ["a"]}]}', '[{"loc": ["a"]}]'),
        (b'{"error": {"code": 7}}', '{"error": {"code": 7}}'),
        (b"<html>Bad Gateway\xff</html>", "<html>Bad Gateway\ufffd</html>"),
        (b"", "the server answered with status 502"),
        (b"null", "null"),
        (b"x" * 100_000, "x" * 8192),
    ],
)
def test_the_server_s_words_are_not_lost(body, expected):
    """Wherever they stand, as far as they are of a bearable length."""
    got = answer(body, 502)
    assert got.status == 502
    assert json.loads(got.body)["error"]["message"] == expected


def test_an_error_under_status_200():
    """Some gateways do so."""
    got = answer({"error": {"message": "boom", "code": 429}})
    assert (got.status, json.loads(got.body)["error"]["type"]) == (429, "rate_limit_error")
    assert answer({"error": "boom"}).status == 500


NEARLY = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("id", "model", "usage", "timings", "error", "object", "choices"), JSON),
) | st.builds(
    lambda message, finish: {"choices": [{"message": message, "finish_reason": finish}]},
    st.fixed_dictionaries(
        {},
        optional={
            "content": JSON,
            "reasoning": JSON,
            "refusal": JSON,
            "function_call": JSON,
            "tool_calls": JSON
            | st.lists(
                st.fixed_dictionaries(
                    {
                        "id": JSON,
                        "function": st.fixed_dictionaries({"name": JSON, "arguments": JSON}),
                    }
                )
            ),
        },
    ),
    JSON,
)


@given(NEARLY | JSON, st.integers(200, 599))
def test_no_answer_breaks_it(value, status):
    """Whatever a server says: a valid message, a valid error, or TranslationError."""
    try:
        got = exchange().answer(status, json.dumps(value).encode())
    except TranslationError:
        return
    said = json.loads(got.body)
    assert said["type"] in ("message", "error")
    if said["type"] == "message":
        MESSAGE.validate_python(said, strict=True)
    else:
        assert got.status >= 300
