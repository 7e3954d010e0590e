"""What each dialect says of tokens, in its own arithmetic."""

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


def said(counts=None, /, **more):
    """A message with these counts."""
    return {"usage": (counts or {}) | more}


def prompt(details=None, **more):
    """One in the arithmetic of Chat Completions; ``details`` of 26 tokens."""
    return said(prompt_tokens=26, prompt_tokens_details=details, **more)


# DeepSeek, "Context caching": the two parts of prompt_tokens stand beside it.
DEEPSEEK = {"prompt_tokens": 102_056, "completion_tokens": 252, "prompt_cache_hit_tokens": 94_464}
# vLLM, PromptTokenUsageInfo: what it made room for in its cache is part of the prompt.
VLLM = {"cached_tokens": 1920, "created_cache_tokens": 80, "multimodal_tokens": None}
NO_CACHE = {"cache_read_input_tokens": None, "cache_creation_input_tokens": None}
BY_TIMINGS = Usage(237, 236, 35, 0.030958, 0.661064)
BY_OLLAMA = (282, 0.342546, 4.535599)
UNCOUNTED = {key: value for key, value in OLLAMA.items() if key != "prompt_eval_count"}


@pytest.mark.parametrize(
    ("message", "usage"),
    [
        (ANTHROPIC, Usage(100_298, 100_000, 503, written=248)),
        (said(input_tokens=2095, output_tokens=503), Usage(2095, None, 503)),
        (said(input_tokens=9, cache_read_input_tokens=0, output_tokens=1), Usage(9, 0, 1)),
        (said(NO_CACHE, input_tokens=9, output_tokens=1), Usage(9, None, 1)),
        ({"input_tokens": 2095}, Usage()),
        ({"object": "chat.completion"} | said(CHAT_USAGE), Usage(2006, 1920, 300)),
        (said(prompt_tokens=9, completion_tokens=12, total_tokens=21), Usage(9, None, 12)),
        (prompt(None), Usage(26)),
        (said(prompt_tokens=8, total_tokens=8), Usage(8)),
        ({"object": "response"} | said(RESPONSES_USAGE), Usage(328, 320, 52)),
        ({"type": "response.completed", "response": said(RESPONSES_USAGE)}, Usage(328, 320, 52)),
        (said(RESPONSES_USAGE, input_tokens_details=None), Usage(328, None, 52)),
        ({"choices": [], "timings": TIMINGS}, BY_TIMINGS),
        (said(CHAT_USAGE, prompt_tokens_details=None) | {"timings": TIMINGS}, BY_TIMINGS),
        (
            {"timings": {"prompt_n": 12, "predicted_n": 3, "prompt_ms": 5}},
            Usage(None, None, 3, 5e-3),
        ),
        (COMPLETION | {"timings": TIMINGS}, BY_TIMINGS),
        (COMPLETION, Usage(237, None, 35)),
        (COMPLETION | {"truncated": True}, Usage(237, None, 35, truncated=True)),
        (COMPLETION | {"truncated": False}, Usage(237, None, 35)),
        (COMPLETION | {"truncated": "disabled"}, Usage(237, None, 35)),
        (OLLAMA | {"truncated": True}, Usage(26, None, *BY_OLLAMA, truncated=True)),
        (said(CHAT_USAGE) | {"truncated": True}, Usage(2006, 1920, 300, truncated=True)),
        ({"content": " a", "tokens_predicted": 2, "tokens_evaluated": 237}, Usage(237, None, 2)),
        (OLLAMA, Usage(26, None, *BY_OLLAMA)),
        (UNCOUNTED, Usage(None, None, *BY_OLLAMA)),
        (OLLAMA | {"prompt_eval_cached_count": 16}, Usage(26, 16, *BY_OLLAMA)),
        (OLLAMA | {"prompt_eval_cached_count": 0}, Usage(26, 0, *BY_OLLAMA)),
        (said(DEEPSEEK), Usage(102_056, 94_464, 252)),
        (said(DEEPSEEK, prompt_tokens_details={"cached_tokens": 9}), Usage(102_056, 9, 252)),
        (said(prompt_tokens=50, cached_tokens=20), Usage(50, 20)),
        (said(CHAT_USAGE, prompt_tokens_details=VLLM), Usage(2006, 1920, 300, written=80)),
        (prompt(VLLM | {"cached_tokens": None}), Usage(26)),
        (prompt({"created_cache_tokens": 9, "cached_tokens": None}), Usage(26, written=9)),
        (prompt({"cache_write_tokens": 9}), Usage(26, written=9)),
        (
            said(RESPONSES_USAGE, input_tokens_details=VLLM | {"cached_tokens": 48}),
            Usage(328, 48, 52, written=80),
        ),
    ],
)
def test_each_dialect_is_read_in_its_own_arithmetic(message, usage):
    """Law 6: Anthropic's input excludes what was cached, OpenAI's includes it."""
    text = json.dumps(message).encode()
    assert usage_of(message) == usage
    assert read(JSON, text) == read(JSON, json.dumps(message, indent=2).encode()) == usage
    assert read(NDJSON, text) == read(NDJSON, text + b"\r\n") == usage
    assert read(SSE, events(message)) == usage


@pytest.mark.parametrize(
    ("usage", "evaluated"),
    [
        (Usage(100, 80), 20),
        (Usage(100, 100), 0),
        (Usage(100), None),
        (Usage(None, 80), None),
        (Usage(80, 100), None),
    ],
)
def test_evaluated_is_all_less_the_reused(usage, evaluated):
    """Unknown where a part is unknown, or where the two contradict each other."""
    assert usage.evaluated == evaluated


def timings(**odd):
    return {"timings": {"cache_n": 236, "prompt_n": 1, "predicted_n": 3} | odd}


def anthropic(**odd):
    return said(input_tokens=26, output_tokens=2, **odd)


ODD = (-1, 1.0, 7.5, True, "7", "", [], {}, 1 << 53, 10**400, float("nan"), float("inf"))


@pytest.mark.parametrize(
    ("message", "more", "usage"),
    [
        # 27 are more than the prompt, 7 do not fit beside the reused
        (lambda odd: prompt({"cached_tokens": odd}), 27, Usage(26)),
        (lambda odd: said(prompt_tokens=26, prompt_cache_hit_tokens=odd), 27, Usage(26)),
        (
            lambda odd: anthropic(input_tokens_details={"cached_tokens": odd}),
            27,
            Usage(26, None, 2),
        ),
        (lambda odd: {"prompt_eval_count": 26, "prompt_eval_cached_count": odd}, 27, Usage(26)),
        (lambda odd: prompt({"cached_tokens": 20, "created_cache_tokens": odd}), 7, Usage(26, 20)),
        (lambda odd: timings(cache_n=odd), -1, Usage(output=3)),
        (lambda odd: timings(prompt_n=odd), -1, Usage(output=3)),
        (lambda odd: timings(predicted_n=odd), -1, Usage(237, 236)),
        # of Anthropic's three counts none is the prompt by itself
        (lambda odd: anthropic(cache_read_input_tokens=odd), -1, Usage(output=2)),
        (lambda odd: anthropic(cache_creation_input_tokens=odd), -1, Usage(output=2)),
    ],
)
def test_an_odd_count_is_unknown_and_harms_no_other(message, more, usage):
    for odd in (*ODD, more):
        assert usage_of(message(odd)) == usage, odd


def test_figures_that_contradict_each_other_only_when_put_together_are_unknown():
    """A stream may say the prompt in one event and what it reused in another."""
    assert Usage(26, 5).merged(Usage(reused=27)) == Usage(26)


@pytest.mark.parametrize(
    "usage",
    [
        *(None, [], "x", 5, {}),
        {"prompt_tokens": None},
        {"prompt_tokens": "5", "completion_tokens": "6"},
        {"prompt_tokens": 5.5, "prompt_tokens_details": [5], "completion_tokens": True},
        {"prompt_tokens": -5, "prompt_tokens_details": {"cached_tokens": -1}},
        {"prompt_tokens": 10**4000, "prompt_tokens_details": {"cached_tokens": 1 << 53}},
        {"input_tokens": {}, "cache_read_input_tokens": [], "output_tokens": None},
        {"input_tokens_details": 5},
    ],
)
def test_what_is_no_sane_count_is_not_guessed_at(usage):
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
def test_only_an_object_can_have_usage(message):
    assert usage_of(message) == Usage()


@pytest.mark.parametrize(
    ("values", "total"), [((), 0), ((1, 0.5), 1.5), ((1, None), None), ((None,), None)]
)
def test_a_sum_of_what_is_not_known_is_not_known(values, total):
    assert summed(iter(values)) == total
