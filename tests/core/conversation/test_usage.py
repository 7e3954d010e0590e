"""What each dialect says of tokens, in its own arithmetic."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.conversation.usage import Usage, summed, usage_of
from tests.core.counting import (
    ANTHROPIC,
    CHAT_USAGE,
    COMPLETION,
    JSON,
    NDJSON,
    OLLAMA,
    RESPONSES_USAGE,
    SSE,
    TIMINGS,
    events,
    read,
)

# DeepSeek, "Context caching": the two parts of prompt_tokens stand beside it.
DEEPSEEK_USAGE = {
    "prompt_tokens": 102_056,
    "completion_tokens": 252,
    "total_tokens": 102_308,
    "prompt_cache_hit_tokens": 94_464,
    "prompt_cache_miss_tokens": 7592,
}
# vLLM, PromptTokenUsageInfo: what it made room for in its cache is part of the prompt.
VLLM_DETAILS = {"cached_tokens": 1920, "created_cache_tokens": 80, "multimodal_tokens": None}


@pytest.mark.parametrize(
    ("message", "usage"),
    [
        (ANTHROPIC, Usage(100_298, 100_000, 503, written=248)),
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
        (OLLAMA | {"prompt_eval_cached_count": 16}, Usage(26, 16, 282, 0.342546, 4.535599)),
        (OLLAMA | {"prompt_eval_cached_count": 0}, Usage(26, 0, 282, 0.342546, 4.535599)),
        (
            {"usage": DEEPSEEK_USAGE},
            Usage(102_056, 94_464, 252),
        ),
        (
            {"usage": DEEPSEEK_USAGE | {"prompt_tokens_details": {"cached_tokens": 94_464}}},
            Usage(102_056, 94_464, 252),
        ),
        ({"usage": {"prompt_tokens": 50, "cached_tokens": 20}}, Usage(50, 20)),
        (
            {"usage": CHAT_USAGE | {"prompt_tokens_details": VLLM_DETAILS}},
            Usage(2006, 1920, 300, written=80),
        ),
        (
            {
                "usage": CHAT_USAGE
                | {"prompt_tokens_details": VLLM_DETAILS | {"cached_tokens": None}}
            },
            Usage(2006, None, 300, written=80),
        ),
        (
            {"usage": {"prompt_tokens": 95, "prompt_tokens_details": {"cache_write_tokens": 9}}},
            Usage(95, written=9),
        ),
        (
            {
                "usage": RESPONSES_USAGE
                | {"input_tokens_details": VLLM_DETAILS | {"cached_tokens": 48}}
            },
            Usage(328, 48, 52, written=80),
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


ODD = [-1, 1.0, 7.5, True, "7", "", [], {}, 1 << 53, 10**400, float("nan"), float("inf")]


@pytest.mark.parametrize("odd", [*ODD, 27])
def test_an_odd_count_of_reused_tokens_is_unknown_and_harms_no_other(odd):
    """So is one that is more than the prompt."""
    details = {"cached_tokens": odd}
    assert usage_of({"usage": {"prompt_tokens": 26, "prompt_tokens_details": details}}) == Usage(26)
    assert usage_of({"usage": {"prompt_tokens": 26, "prompt_cache_hit_tokens": odd}}) == Usage(26)
    said = {"input_tokens": 26, "input_tokens_details": details, "output_tokens": 2}
    assert usage_of({"usage": said}) == Usage(26, None, 2)
    ollama = usage_of({"prompt_eval_count": 26, "prompt_eval_cached_count": odd, "eval_count": 2})
    assert ollama == Usage(26, None, 2)
    assert ollama.evaluated is None


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("cache_n", Usage(output=3)),
        ("prompt_n", Usage(output=3)),
        ("predicted_n", Usage(237, 236)),
    ],
)
def test_an_odd_count_among_a_servers_timings_is_unknown(odd, name, usage):
    timings = {"cache_n": 236, "prompt_n": 1, "predicted_n": 3}
    assert usage_of({"timings": timings | {name: odd}}) == usage


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["cache_read_input_tokens", "cache_creation_input_tokens"])
def test_a_sum_with_an_odd_part_is_unknown(odd, name):
    """Of Anthropic's three counts none is the prompt by itself."""
    assert usage_of({"usage": {"input_tokens": 26, name: odd, "output_tokens": 2}}) == Usage(
        output=2
    )


@pytest.mark.parametrize("odd", [*ODD, 7])
def test_an_odd_count_of_written_tokens_is_unknown(odd):
    """So is one that does not fit beside the reused."""
    details = {"cached_tokens": 20, "created_cache_tokens": odd}
    usage = usage_of({"usage": {"prompt_tokens": 26, "prompt_tokens_details": details}})
    assert usage == Usage(26, 20)


def test_figures_that_contradict_each_other_only_when_put_together_are_unknown():
    """A stream may say the prompt in one event and what it reused in another."""
    assert Usage(26, 5).merged(Usage(reused=27)) == Usage(26)


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
    ("values", "total"), [((), 0), ((1, 0.5), 1.5), ((1, None), None), ((None,), None)]
)
def test_a_sum_of_what_is_not_known_is_not_known(values, total):
    assert summed(iter(values)) == total
