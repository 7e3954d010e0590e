"""The official OpenAI SDK, over a real socket, puts together what the transforms make."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

pytest.importorskip("openai")

import openai

from cacheproxy.translate.chat import ChatToMessages
from tests.translate.common.serving import served

from .events import event, start, text
from .test_answer import message

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@contextmanager
def client_of(status, *pieces):
    """A client whose requests are translated and answered by a server that says ``pieces``."""
    with (
        served(lambda: ChatToMessages(created=1234), status, pieces, ("x-api-key", "key")) as url,
        openai.DefaultHttpxClient(trust_env=False) as plain,
    ):
        yield openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0, http_client=plain)


def test_counts_that_the_server_does_not_give_are_unknown_to_the_sdk():
    """Not 0: neither the tokens nor what was reused of them."""
    said = message({"type": "text", "text": "Hello"}) | {"usage": {}}
    with client_of(200, json.dumps(said).encode()) as client:
        assert client.chat.completions.create(**ASKED).usage is None
    said["usage"] = {"input_tokens": 9, "output_tokens": 2}
    with client_of(200, json.dumps(said).encode()) as client:
        usage = client.chat.completions.create(**ASKED).usage
    assert (usage.prompt_tokens, usage.prompt_tokens_details) == (9, None)
    ended = event("message_delta", delta={"stop_reason": "end_turn"})
    pieces = [start(usage={}), text(0, "Hello"), ended, event("message_stop")]
    options = {"include_usage": True}
    with (
        client_of(200, *pieces) as client,
        client.chat.completions.stream(**ASKED, stream_options=options) as stream,
    ):
        assert stream.get_final_completion().usage is None


def test_a_prompt_that_does_not_fit_has_its_code():
    """The one clients ask for."""
    body = b'{"type":"error","error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}'
    with client_of(400, body) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ASKED)
    assert caught.value.code == "context_length_exceeded"
