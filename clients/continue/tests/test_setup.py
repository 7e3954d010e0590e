"""What Continue's CLI is told."""

from __future__ import annotations

import json
from dataclasses import replace

from cacheproxy_continue import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" ${{ secrets.HOME }}', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """A model with its window, whose name is no variable; keys by the names of theirs."""
    content = cacheproxy_setup(FULL).content
    assert "${{" not in content
    (model,) = json.loads(content)["models"]
    assert (model["model"], model["apiBase"]) == (FULL.model, f"{URL}/v1")
    assert model["defaultCompletionOptions"] == {"contextLength": 131_072, "maxTokens": 8192}
    (model,) = json.loads(cacheproxy_setup(BOTH).content)["models"]
    assert model["apiKey"] == "${{ secrets.OPENAI_API_KEY }}"
    headers = model["requestOptions"]["headers"]
    assert headers == {TOKEN_HEADER: "${{ secrets.CACHEPROXY_TOKEN }}"}


def test_it_is_started_with_the_same_in_a_file_of_its_own():
    """Which it is told for this once."""
    setup = cacheproxy_setup(replace(FULL, folder="/there"))
    assert setup.launch.program == "cn"
    assert setup.launch.arguments == ("--config", "/there/config.yaml")
    assert setup.launch.files == {"config.yaml": setup.content}
