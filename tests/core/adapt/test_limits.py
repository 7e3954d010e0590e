"""A limit over what is left is clamped by the numbers in the error."""

import pytest

from cacheproxy.core.adapt.limits import AnswerLimit

from .mending import later, mended, refusal

LIMIT = AnswerLimit()
HI = [{"role": "user", "content": "hi"}]
MOST = "This model's maximum context length is 32768 tokens"
WORDS = {
    "vLLM": f"{MOST}. However, you requested 40000 tokens (12000 in the messages, 28000 in the "
    "completion). Please reduce the length of the messages or completion.",
    "vLLM's next": f"'max_tokens' or 'max_completion_tokens' is too large: 28000. {MOST} and your "
    "request has 12000 input tokens (28000 > 32768 - 12000).",
    "vLLM's other": f"{MOST}. However, your request has 12000 input tokens plus 28000 "
    "'max_tokens'. Please reduce one or the other.",
    "SGLang": "Requested token count exceeds the model's maximum context length of 32768 tokens. "
    "You requested a total of 40000 tokens: 12000 tokens from the input messages and 28000 tokens "
    "for the completion.",
    "Anthropic": "input length and `max_tokens` exceed context limit: 12000 + 28000 > 32768, "
    "decrease input length or `max_tokens` and try again",
}
AT_LEAST = (
    "This model's maximum context length is 128000 tokens. However, you requested {} output tokens "
    "and your prompt contains at least {} input tokens, for a total of at least 128001 tokens."
)


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize(
    ("api", "more", "expected"),
    [
        ("messages", {"max_tokens": 28_000}, {"max_tokens": 20_767}),
        ("chat", {"max_completion_tokens": 28_000}, {"max_completion_tokens": 20_767}),
        (
            "chat",
            {"max_completion_tokens": 28_000, "max_tokens": 9},
            {"max_completion_tokens": 20_767, "max_tokens": 9},
        ),
        ("ollama", {"options": {"num_predict": 28_000}}, {"options": {"num_predict": 20_767}}),
    ],
)
def test_as_much_as_is_left(words, api, more, expected):
    body, facts = mended(LIMIT, api, {"messages": HI, **more}, words)
    assert body == {"messages": HI, **expected}
    assert later(LIMIT, api, {"messages": HI, **more}, facts) == {"messages": HI, **more}


@pytest.mark.parametrize(
    ("limit", "prompt", "status"),
    [(12_500, 12_000, 400), (12_000, 12_500, 400), (32_768, 12_000, 429), (90_000, 12_000, 400)],
)
def test_too_little_is_left_for_an_answer_or_it_is_no_answer(limit, prompt, status):
    """The client has to compact: it is told, with the server's numbers."""
    words = WORDS["vLLM"].replace("32768", str(limit)).replace("12000", str(prompt))
    body, _ = mended(LIMIT, "chat", {"messages": HI, "max_tokens": 28_000}, refusal(words, status))
    assert body is None


def test_a_model_whose_answers_are_shorter():
    words = "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"
    body, _ = mended(LIMIT, "responses", {"input": HI, "max_output_tokens": 100_000}, words)
    assert body["max_output_tokens"] == 16_384
    words = "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"
    body, _ = mended(LIMIT, "messages", {"messages": HI, "max_tokens": 100_000}, words)
    assert body["max_tokens"] == 64_000


def test_a_prompt_that_was_not_counted_to_its_end():
    """The server, vLLM, stops at the first token that is too many: nobody knows how many come."""
    words = AT_LEAST.format(65_535, 62_466)
    asked = {"messages": HI, "max_tokens": 65_535}
    assert mended(LIMIT, "chat", asked, words)[0] == {"messages": HI}
    once, _ = mended(LIMIT, "messages", asked, words)
    assert once["max_tokens"] == 32_766
    again = AT_LEAST.format(32_766, 95_235)
    assert mended(LIMIT, "messages", asked, words, again)[0]["max_tokens"] == 16_382
