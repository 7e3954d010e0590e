"""Two short prompts in each API, and what the counts of their tokens tell."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.placement.placing import late_messages
from cacheproxy.core.template.short_prompts import FEW, MANY, short_prompt
from cacheproxy.testing import request

PATHS = {
    "/v1/messages": "messages",
    "/v1/chat/completions": "messages",
    "/openai/v1/responses": "input",
    "/api/chat": "messages",
}
HEADERS = {
    "Authorization": "Bearer key",
    "X-Session-ID": "s",
    "Content-Length": "7",
    "content-type": "text/plain",
    "Accept-Encoding": "gzip",
}


def prompts(path, body=None):
    like = request(
        {"model": "m", "stream": True, "tools": [1]} if body is None else body, path, HEADERS
    )
    return [short_prompt(like, count, "nonce") for count in (FEW, MANY)]


@pytest.mark.parametrize("path", PATHS)
def test_they_speak_the_clients_api_to_its_model_as_the_client(path):
    """With its credentials and session, and nothing of what it says."""
    few, many = prompts(f"{path}?key=1")
    for prompt, count in ((few, FEW), (many, MANY)):
        assert prompt.target == f"{path}?key=1"
        assert prompt.method == "POST"
        assert prompt.header("authorization") == "Bearer key"
        assert prompt.header("x-session-id") == "s"
        assert prompt.header("content-type") == "application/json"
        assert prompt.header("content-length") is prompt.header("accept-encoding") is None
        assert prompt.json["model"] == "m"
        assert prompt.json["stream"] is False
        assert "tools" not in prompt.json
        late = late_messages(prompt)
        assert len(late) == count
        assert not any(each.leads for each in late)
        assert len(prompt.body) < 3000
    assert few.json[PATHS[path]] == many.json[PATHS[path]][: -(MANY - FEW)]
    # one token is asked for, under the name that the API has for it
    options = few.json.get("options", {})
    limits = [few.json.get(name) for name in ("max_tokens", "max_output_tokens")]
    assert [limit for limit in [*limits, options.get("num_predict")] if limit] == [1]
    assert few.json.get("store", False) is False
    # no prompt of yesterday is to be found in the cache
    other = short_prompt(request(few.json, path), FEW, "other")
    assert json.dumps(other.json) == json.dumps(few.json).replace("nonce", "other")


def test_counting_tokens_asks_by_a_prompt():
    """Counting alone evaluates nothing, and may not refuse what the model would."""
    few, _ = prompts("/v1/messages/count_tokens?beta=true")
    assert few.target == "/v1/messages?beta=true"


@pytest.mark.parametrize("body", [{}, {"model": None}, "no json"])
def test_without_a_model_none_is_named(body):
    """The server has one."""
    assert "model" not in prompts("/v1/messages", body)[0].json
