"""An overflow is answered in the words that clients of the API compact on."""

import json
import re

import pytest

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.adapt.overflow import overflow_answer
from cacheproxy.core.dialects.dialects import spoken
from tests import transcript

LLAMA = "request (18018 tokens) exceeds the available context size (2048 tokens), try increasing it"
SGLANG = "The input (18018 tokens) is longer than the model's context length (2048 tokens)."
VLLM = (
    "This model's maximum context length is 2048 tokens. However, you requested 18022 tokens "
    "(18018 in the messages, 4 in the completion). Please reduce the length of the messages or "
    "completion."
)
LM_STUDIO = (
    "Trying to keep the first 18018 tokens when context the overflows. However, the model is "
    "loaded with context length of only 2048 tokens, which is not enough."
)
OLLAMA = "prompt too long; exceeded max context length by 12 tokens"
SAID = {
    "llama.cpp": LLAMA,
    "SGLang": SGLANG,
    "vLLM": VLLM,
    "LM Studio": LM_STUDIO,
    "Ollama": OLLAMA,
}
CLAUDE_CODE = re.compile(r"prompt is too long", re.IGNORECASE)
CLINE = re.compile(r"\bcontext\s*(?:length|window)\b|\bmaximum\s*context\b")
QWEN_CODE = re.compile(r"\bmaximum context length\b|\bcontext[_\s-]?length[_\s-]?exceeded\b")
PI = re.compile(r"exceeds the context window|maximum context length is \d+ tokens")


def answer(words, path, *, streams=False, status=400, code=""):
    return overflow_answer(Refusal(status, words, code), spoken(path), streams=streams)


@pytest.mark.parametrize("words", SAID.values(), ids=SAID)
@pytest.mark.parametrize("status", [400, 500])
def test_clients_of_messages(words, status):
    told = answer(words, "/v1/messages", status=status)
    body = json.loads(told.body)
    assert told[:2] == (400, b"application/json")
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert CLAUDE_CODE.search(body["error"]["message"])
    assert words in body["error"]["message"]
    if words in (LLAMA, SGLANG, VLLM):
        assert "prompt is too long: 18018 tokens > 2048 maximum" in body["error"]["message"]


@pytest.mark.parametrize("words", SAID.values(), ids=SAID)
def test_clients_of_chat_completions(words):
    told = answer(words, "/v1/chat/completions")
    if words == VLLM:  # they know it
        assert told is None
        return
    error = json.loads(told.body)["error"]
    assert (told.status, error["code"], error["param"]) == (
        400,
        "context_length_exceeded",
        "messages",
    )
    message = error["message"]
    assert words in message
    assert CLINE.search(message)
    assert PI.search(message)
    assert QWEN_CODE.search(f"{message} {error['code']}")


@pytest.mark.parametrize("words", SAID.values(), ids=SAID)
def test_clients_of_responses(words):
    """Codex goes by the event alone; others by the code of the error."""
    whole = answer(words, "/v1/responses")
    error = json.loads(whole.body)["error"]
    assert (whole.status, error["code"], error["param"]) == (
        400,
        "context_length_exceeded",
        "input",
    )
    told = answer(words, "/v1/responses", streams=True)
    assert told[:2] == (200, b"text/event-stream")
    events = [
        json.loads(line[6:]) for line in told.body.decode().split("\n") if line[:6] == "data: "
    ]
    assert [event["type"] for event in events] == ["response.created", "response.failed"]
    error = events[-1]["response"]["error"]
    assert error["code"] == "context_length_exceeded"
    assert words in error["message"]


def test_all_that_is_said():
    transcript.holds("overflow.txt", globals())
