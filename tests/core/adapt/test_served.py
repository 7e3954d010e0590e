"""A model that the server does not have: the one that the conversation's main thread has."""

import pytest

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.adapt.served import ServedModel
from cacheproxy.core.conversation.store import Store

from .mending import later, mended, refusal

STORE = Store()
MODEL = ServedModel(STORE, "qwen")
HI = [{"role": "user", "content": "hi"}]
ASKED = {"model": "claude-haiku-4-5", "messages": HI}


@pytest.mark.parametrize(
    "words",
    [
        "model 'claude-haiku-4-5' not found",
        "The model `claude-haiku-4-5` does not exist.",
        'Model "claude-haiku-4-5" not found. Please specify a valid model.',
        "/chat/completions: Invalid model name passed in model=claude-haiku-4-5",
        "404 Client Error. Repository Not Found for url: https://huggingface.co/api/models/x",
        "could not find suitable inference handler for claude-haiku-4-5",
    ],
)
@pytest.mark.parametrize("api", ["messages", "chat"])
def test_words_of_servers(words, api):
    body, facts = mended(MODEL, api, ASKED, refusal(words, 404))
    assert body == ASKED | {"model": "qwen"}
    assert later(MODEL, api, ASKED, facts) == body
    another = ASKED | {"model": "claude-opus"}
    assert later(MODEL, api, another, facts) == another


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (ASKED, refusal("File Not Found", 404)),
        (ASKED, refusal("model 'x' not found", 401)),
        (ASKED, refusal("this model does not support image input")),
        (ASKED | {"model": "qwen"}, refusal("model 'qwen' not found", 404)),
        ({"messages": HI}, refusal("model '' not found", 404)),
    ],
)
def test_what_stays_refused(asked, error):
    assert mended(MODEL, "chat", asked, error)[0] is None


def test_a_code_will_do():
    assert mended(MODEL, "chat", ASKED, Refusal(404, "no", "model_not_found"))[0]["model"] == "qwen"


def test_no_main_thread_no_model():
    alone = ServedModel(STORE)
    assert mended(alone, "chat", ASKED, refusal("model 'x' not found", 404))[0] is None
