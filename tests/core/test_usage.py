"""What each dialect says of tokens, in its own arithmetic."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core import usage as usage_module
from cacheproxy.core.usage import Usage, UsageReader, usage_of

from . import spelling

SSE = "text/event-stream; charset=utf-8"
JSON = "application/json"
NDJSON = "application/x-ndjson"


def read(content_type: str, *chunks: bytes, encoded: bool = False) -> Usage:
    reader = UsageReader(content_type, encoded=encoded)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.close()


def events(*messages: object) -> bytes:
    """The messages as a stream of events, named as Anthropic and Responses name them."""
    lines = []
    for message in messages:
        kind = message.get("type") if isinstance(message, dict) else None
        lines += [f"event: {kind}\n"] if kind else []
        lines.append(f"data: {message if isinstance(message, str) else json.dumps(message)}\n\n")
    return "".join(lines).encode()


# Anthropic, "Prompt caching": total input is the sum of the three input fields.
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hello!"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 50,
        "cache_read_input_tokens": 100_000,
        "cache_creation_input_tokens": 248,
        "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100},
        "output_tokens": 503,
        "service_tier": "standard",
    },
}
# OpenAI, "Prompt caching": prompt_tokens includes cached_tokens.
CHAT_USAGE = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
RESPONSES_USAGE = {
    "input_tokens": 328,
    "input_tokens_details": {"cached_tokens": 320},
    "output_tokens": 52,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 380,
}
# llama.cpp, result_timings::to_json().
TIMINGS = {
    "cache_n": 236,
    "prompt_n": 1,
    "prompt_ms": 30.958,
    "prompt_per_token_ms": 30.958,
    "prompt_per_second": 32.301,
    "predicted_n": 35,
    "predicted_ms": 661.064,
    "predicted_per_token_ms": 18.887,
    "predicted_per_second": 52.94,
}
# llama.cpp's native /completion: tokens_cached counts what the slot holds afterwards.
COMPLETION = {
    "index": 0,
    "content": " there",
    "id_slot": 0,
    "stop": True,
    "tokens_predicted": 35,
    "tokens_evaluated": 237,
    "tokens_cached": 271,
    "truncated": False,
}
# Ollama, docs/api.md, the last line of a stream.
OLLAMA = {
    "model": "llama3.2",
    "created_at": "2023-08-04T19:22:45.499127Z",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}


@pytest.mark.parametrize(
    ("message", "usage"),
    [
        (ANTHROPIC, Usage(100_298, 100_000, 503)),
        ({"usage": {"input_tokens": 2095, "output_tokens": 503}}, Usage(2095, None, 503)),
        (
            {"usage": {"input_tokens": 9, "cache_read_input_tokens": 0, "output_tokens": 1}},
            Usage(9, 0, 1),
        ),
        (
            {
                "usage": {
                    "input_tokens": 9,
                    "cache_read_input_tokens": None,
                    "cache_creation_input_tokens": None,
                    "output_tokens": 1,
                }
            },
            Usage(9, None, 1),
        ),
        ({"input_tokens": 2095}, Usage()),
        ({"object": "chat.completion", "usage": CHAT_USAGE}, Usage(2006, 1920, 300)),
        (
            {"usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}},
            Usage(9, None, 12),
        ),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": None}}, Usage(9)),
        ({"usage": {"prompt_tokens": 8, "total_tokens": 8}}, Usage(8)),
        ({"object": "response", "usage": RESPONSES_USAGE}, Usage(328, 320, 52)),
        (
            {"type": "response.completed", "response": {"usage": RESPONSES_USAGE}},
            Usage(328, 320, 52),
        ),
        (
            {"usage": RESPONSES_USAGE | {"input_tokens_details": None}},
            Usage(328, None, 52),
        ),
        ({"choices": [], "timings": TIMINGS}, Usage(237, 236, 35, 0.030958, 0.661064)),
        (
            {"usage": CHAT_USAGE | {"prompt_tokens_details": None}, "timings": TIMINGS},
            Usage(237, 236, 35, 0.030958, 0.661064),
        ),
        (
            {"timings": {"prompt_n": 12, "predicted_n": 3, "prompt_ms": 5}},
            Usage(None, None, 3, 0.005),
        ),
        (COMPLETION | {"timings": TIMINGS}, Usage(237, 236, 35, 0.030958, 0.661064)),
        (COMPLETION, Usage(237, None, 35)),
        (
            {"content": " a", "stop": False, "tokens_predicted": 2, "tokens_evaluated": 237},
            Usage(237, None, 2),
        ),
        (OLLAMA, Usage(26, None, 282, 0.342546, 4.535599)),
        (
            {key: value for key, value in OLLAMA.items() if key != "prompt_eval_count"},
            Usage(None, None, 282, 0.342546, 4.535599),
        ),
    ],
)
def test_each_dialect_is_read_in_its_own_arithmetic(message, usage):
    """Law 6: Anthropic's input excludes what was cached, OpenAI's includes it."""
    assert usage_of(message) == usage
    assert read(JSON, json.dumps(message).encode()) == usage
    assert read(JSON, json.dumps(message, indent=2).encode()) == usage
    assert read(SSE, events(message)) == usage
    assert read(NDJSON, json.dumps(message).encode() + b"\r\n") == usage
    assert read(NDJSON, json.dumps(message).encode()) == usage


@pytest.mark.parametrize(
    ("usage", "evaluated"),
    [
        (Usage(100, 80), 20),
        (Usage(100, 0), 100),
        (Usage(100, 100), 0),
        (Usage(100), None),
        (Usage(None, 80), None),
        (Usage(), None),
        (Usage(80, 100), None),
    ],
)
def test_evaluated_is_all_less_the_reused(usage, evaluated):
    """Unknown where a part is unknown, or where the two contradict each other."""
    assert usage.evaluated == evaluated


START = {
    "type": "message_start",
    "message": ANTHROPIC | {"usage": ANTHROPIC["usage"] | {"output_tokens": 1}},
}


@pytest.mark.parametrize(
    ("delta", "usage"),
    [
        ({"output_tokens": 503}, Usage(100_298, 100_000, 503)),
        (ANTHROPIC["usage"], Usage(100_298, 100_000, 503)),
        ({"input_tokens": 50, "output_tokens": 503}, Usage(100_298, 100_000, 503)),
        (
            {
                "input_tokens": 50,
                "cache_read_input_tokens": None,
                "cache_creation_input_tokens": None,
                "output_tokens": 503,
            },
            Usage(100_298, 100_000, 503),
        ),
        ({"input_tokens": None, "output_tokens": 503}, Usage(100_298, 100_000, 503)),
        (
            {"input_tokens": 60, "cache_read_input_tokens": 100_000, "output_tokens": 503},
            Usage(100_060, 100_000, 503),
        ),
        (None, Usage(100_298, 100_000, 1)),
    ],
)
def test_anthropic_streams_count_nothing_twice(delta, usage):
    """message_start has the input; message_delta the output, and may repeat the input."""
    stream = events(
        START,
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "usage"}},
        {"type": "ping"},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": delta},
        {"type": "message_stop"},
    )
    assert read(SSE, stream) == usage


def test_placeholder_counts_at_the_start_are_overridden():
    """Some servers begin with zeros and say the counts at the end."""
    zeros = {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
    stream = events(
        {"type": "message_start", "message": {"usage": zeros}},
        {"type": "message_delta", "usage": {"input_tokens": 57, "output_tokens": 4}},
    )
    assert read(SSE, stream) == Usage(57, 0, 4)


def test_openai_streams_end_with_their_usage():
    """Chunks before the last say null, or nothing; then comes [DONE]."""
    stream = events(
        {"choices": [{"delta": {"content": 'a "usage"'}}], "usage": None},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": CHAT_USAGE},
        "[DONE]",
    )
    assert read(SSE, stream) == Usage(2006, 1920, 300)


@pytest.mark.parametrize("null", [b'"usage":null', b'"usage": null'])
def test_a_null_is_no_reason_to_read_an_event(null, monkeypatch):
    """Servers that say it in every chunk cost no JSON; a null beside figures hides none."""
    both = b'data: {"choices":[],%s,"response":{"usage":{"prompt_tokens":7}}}\n\n' % null
    stream = b"data: {}\n\n" + b'data: {"choices":[],%s}\n\n' % null * 1000
    assert read(SSE, stream, both, stream) == Usage(7)
    monkeypatch.setattr(usage_module.json, "loads", pytest.fail)
    assert read(SSE, stream) == Usage()


def test_running_counts_end_with_the_last():
    """Servers that count in every chunk are read to the end."""
    stream = events(
        *({"choices": [{}], "timings": TIMINGS | {"predicted_n": n}} for n in range(1, 36)),
        *({"usage": {"prompt_tokens": 237, "completion_tokens": n}} for n in (34, 35)),
        "[DONE]",
    )
    assert read(SSE, stream) == Usage(237, 236, 35, 0.030958, 0.661064)


def test_responses_streams_end_with_their_usage():
    """response.created has none yet; response.completed has it, and timings beside it."""
    stream = events(
        {"type": "response.created", "response": {"status": "in_progress", "usage": None}},
        {"type": "response.output_text.delta", "delta": "a"},
        {
            "type": "response.completed",
            "response": {"status": "completed", "usage": RESPONSES_USAGE},
            "timings": TIMINGS | {"cache_n": 320, "prompt_n": 8, "predicted_n": 52},
        },
    )
    assert read(SSE, stream) == Usage(328, 320, 52, 0.030958, 0.661064)


def test_ollama_streams_lines():
    """The last line has the counts; the last line end may be missing."""
    lines = [{"message": {"content": "a"}, "done": False}] * 3 + [OLLAMA]
    stream = "\n".join(map(json.dumps, lines)).encode()
    assert read(NDJSON, stream) == read(NDJSON, stream + b"\n") == usage_of(OLLAMA)
    assert read("application/jsonl", stream) == usage_of(OLLAMA)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        "x",
        5,
        {},
        {"prompt_tokens": None},
        {"prompt_tokens": "5", "completion_tokens": "6"},
        {"prompt_tokens": 5.5, "prompt_tokens_details": [5], "completion_tokens": True},
        {"prompt_tokens": -5, "prompt_tokens_details": {"cached_tokens": -1}},
        {"prompt_tokens": 10**4000, "prompt_tokens_details": {"cached_tokens": 1 << 53}},
        {"input_tokens": {}, "cache_read_input_tokens": [], "output_tokens": None},
        {"input_tokens_details": 5},
    ],
)
def test_odd_counts_are_unknown(usage):
    """What is no sane count is not guessed at."""
    assert usage_of({"usage": usage}) == Usage()
    assert usage_of({"message": {"usage": usage}, "response": usage}) == Usage()


@pytest.mark.parametrize(
    "value",
    [None, "1", -1, True, 10**400, float("nan"), float("inf"), float("-inf"), 1e300, [], {}],
)
def test_odd_times_are_unknown(value):
    """Also such as cannot be divided."""
    assert usage_of({"timings": {"prompt_ms": value, "predicted_ms": value}}) == Usage()
    assert usage_of({"prompt_eval_duration": value, "eval_duration": value}) == Usage()


@pytest.mark.parametrize("message", [None, 5, "usage", [], [{"usage": CHAT_USAGE}], {}, True])
def test_other_messages_say_nothing(message):
    """Only an object can have usage."""
    assert usage_of(message) == Usage()


@pytest.mark.parametrize(
    "content_type", ["Application/JSON", "application/problem+json", "TEXT/EVENT-STREAM"]
)
def test_content_type_has_no_case(content_type):
    """As in RFC 9110, section 8.3.1."""
    body = json.dumps({"usage": CHAT_USAGE}).encode()
    if "stream" in content_type.lower():
        body = b"data: " + body + b"\n\n"
    assert read(content_type, body).reused == 1920


@pytest.mark.parametrize(
    ("content_type", "encoded"), [("", False), ("text/html", False), (JSON, True), (SSE, True)]
)
def test_other_bodies_are_not_looked_into(content_type, encoded):
    """Compressed bytes, or text that is no JSON."""
    body = json.dumps({"usage": CHAT_USAGE}).encode()
    assert read(content_type, body, events({"usage": CHAT_USAGE}), encoded=encoded) == Usage()


def test_too_long_a_body_has_no_usage(monkeypatch):
    """What is over the limit is not kept; a too long line is skipped, the next is read."""
    monkeypatch.setattr(usage_module, "_LONGEST_KEPT", 500)
    message = json.dumps({"usage": CHAT_USAGE}).encode()
    long_message = json.dumps({"usage": {"prompt_tokens": 5}, "x": "y" * 500}).encode()
    assert read(JSON, long_message) == Usage()
    for size in (1, 100, 10_000):
        lines = long_message + b"\n" + message + b"\n" + long_message
        chunks = [lines[i : i + size] for i in range(0, len(lines), size)]
        assert read(NDJSON, *chunks) == Usage(2006, 1920, 300)
    assert read(SSE, b"data: " + long_message + b"\n\n") == Usage()
    assert read(SSE, b"data: " + long_message + b"\n\ndata: " + message + b"\n\n").reused == 1920
    reader = UsageReader(JSON)
    for _ in range(1000):
        reader.feed(b"x" * 100)
    assert len(reader._kept) <= 500


bodies = st.one_of(
    st.binary(max_size=60),
    spelling.document.map(str.encode),
    st.lists(
        st.sampled_from(
            [
                events(START),
                events({"type": "message_delta", "usage": {"output_tokens": 5}}),
                events({"usage": CHAT_USAGE}),
                events("[DONE]"),
                events(OLLAMA),
                b'data: {"usage": {"prompt_tokens": 1' + b"0" * 5000 + b"}}\n\n",
                b'data: {"usage": ' + b"[" * 5000 + b"\n\n",
                b'data: {"usage": "\xff"}\n\n',
                b'data: {"usage"\r\ndata: : {"prompt_tokens": 7}}\r\n\r\n',
                json.dumps({"usage": CHAT_USAGE}).encode() + b"\r\n",
                json.dumps(OLLAMA).encode() + b"\n",
                json.dumps(COMPLETION | {"timings": TIMINGS}).encode(),
                b'\xef\xbb\xbf{"usage": {"prompt_tokens": 9}}',
                b'"usage"',
                b"\n",
                b"\r",
                b"\0",
            ]
        ),
        max_size=5,
    ).map(b"".join),
)


together = st.sampled_from([0, 50, usage_module._TOGETHER])
"""Below how many bytes chunks are looked at together."""


@given(
    bodies,
    st.sampled_from([SSE, JSON, NDJSON, "", "json event-stream ndjson"]),
    st.lists(st.integers(0, 1000), max_size=4),
    together,
)
@settings(max_examples=400)
def test_any_bytes_in_any_chunks_give_the_same_usage(body, content_type, cuts, together):
    """Nothing raises, and how the bytes were cut does not matter."""
    whole = read(content_type, body)
    bounds = [0, *sorted(cuts), len(body)]
    chunks = [body[start:end] for start, end in pairwise(bounds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage_module, "_TOGETHER", together)
        assert read(content_type, *chunks) == whole
        assert read(content_type, *(body[i : i + 1] for i in range(len(body)))) == whole


@given(
    bodies,
    st.sampled_from([SSE, JSON, NDJSON]),
    st.lists(st.integers(0, 1000), max_size=4),
    st.integers(0, 200),
    together,
)
@settings(max_examples=400)
def test_neither_do_chunks_matter_at_the_limit(body, content_type, cuts, longest, together):
    """What is too long to be read is the same whatever the chunks."""
    bounds = [0, *sorted(cuts), len(body)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage_module, "_LONGEST_KEPT", longest)
        whole = read(content_type, body)
        patch.setattr(usage_module, "_TOGETHER", together)
        chunks = [body[start:end] for start, end in pairwise(bounds)]
        assert read(content_type, *chunks) == whole
        assert read(content_type, *(body[i : i + 1] for i in range(len(body)))) == whole


def test_a_cut_body_has_the_usage_it_came_to():
    """A stream that breaks off keeps what message_start said; a cut JSON has none."""
    stream = events(START, {"type": "message_delta", "usage": {"output_tokens": 503}})
    assert read(SSE, stream[:-5]) == Usage(100_298, 100_000, 1)
    assert read(JSON, json.dumps(ANTHROPIC).encode()[:-1]) == Usage()
    assert UsageReader(SSE).close() == UsageReader(JSON).close() == Usage()
