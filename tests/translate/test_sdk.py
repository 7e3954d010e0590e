"""The official Anthropic SDK, over a real socket, puts together what the transforms make."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

pytest.importorskip("anthropic")

import anthropic

from tests.translate.serving import served

from .chunks import DONE, chunk
from .test_transcripts import completion

ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@contextmanager
def client_of(status, *pieces):
    """A client whose requests are translated and answered by a server that says ``pieces``."""
    with (
        served(status, pieces, ("authorization", "Bearer key")) as url,
        anthropic.DefaultHttpxClient(trust_env=False) as plain,
    ):
        yield anthropic.Anthropic(base_url=url, api_key="key", max_retries=0, http_client=plain)


@pytest.mark.parametrize("streams", [False, True])
def test_counts_that_the_server_does_not_give_are_unknown_to_the_sdk(streams):
    """Not 0: nobody knows what was reused."""
    if streams:
        pieces = [chunk({"content": "a"}), chunk({}, "stop", usage={"prompt_tokens": 9}), DONE]
        with client_of(200, *pieces) as client, client.messages.stream(**ASKED) as stream:
            said = stream.get_final_message().usage
    else:
        body = json.dumps(completion({"content": "a"}, usage={"prompt_tokens": 9})).encode()
        with client_of(200, body) as client:
            said = client.messages.create(**ASKED).usage
    assert (said.input_tokens, said.output_tokens) == (9, 0)
    assert (said.cache_read_input_tokens, said.cache_creation_input_tokens) == (None, None)
