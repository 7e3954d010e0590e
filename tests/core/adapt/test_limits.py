"""A limit over what is left is clamped by the numbers in the error."""

import pytest

from cacheproxy.core.adapt.limits import AnswerLimit
from tests import transcript

from .mending import later, mended

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


def test_all_that_is_said():
    transcript.holds("limits.txt", globals())
