"""What pi is told."""

from __future__ import annotations

import json
from dataclasses import replace

from cacheproxy_pi import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """A provider with the model's limits, and how to start with it."""
    setup = cacheproxy_setup(FULL)
    (provider,) = json.loads(setup.content)["providers"].items()
    assert provider == (
        "cacheproxy",
        {
            "baseUrl": f"{URL}/v1",
            "api": "openai-completions",
            "apiKey": "cacheproxy",
            "models": [{"id": FULL.model, "contextWindow": 131_072, "maxTokens": 8192}],
        },
    )
    assert "pi --provider cacheproxy --model 'Qwen" in setup.notes[-1]
    both = json.loads(cacheproxy_setup(BOTH).content)["providers"]["cacheproxy"]
    assert both["apiKey"] == "OPENAI_API_KEY"
    assert both["headers"] == {TOKEN_HEADER: "CACHEPROXY_TOKEN"}


def test_it_is_started_with_an_extension():
    """Which registers the provider, and all that a file may leave out."""
    for need in (FULL, BOTH, Need(URL, model="m")):
        launch = cacheproxy_setup(replace(need, folder="/there")).launch
        assert launch.arguments[:2] == ("--extension", "/there/cacheproxy.js")
        assert launch.arguments[2:] == ("--provider", "cacheproxy", "--model", need.model)
        text = launch.files["cacheproxy.js"]
        told = json.loads(text[text.index("{") : text.rindex("}") + 1])
        (provider,) = json.loads(cacheproxy_setup(need).content)["providers"].values()
        (said,), (model,) = provider.pop("models"), told.pop("models")
        assert told == provider
        assert said.items() <= model.items()
        assert {"name", "reasoning", "input", "cost", "contextWindow", "maxTokens"} <= model.keys()
