"""What OpenClaw is told."""

from __future__ import annotations

import json

from cacheproxy_openclaw import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """A provider beside the others, and the model to begin with."""
    found = json.loads(cacheproxy_setup(FULL).content)
    provider = found["models"]["providers"]["cacheproxy"]
    assert found["models"]["mode"] == "merge"
    assert found["agents"]["defaults"]["model"]["primary"] == f"cacheproxy/{FULL.model}"
    assert (provider["baseUrl"], provider["api"]) == (f"{URL}/v1", "openai-completions")
    (model,) = provider["models"]
    assert (model["contextWindow"], model["maxTokens"]) == (131_072, 8192)
    provider = json.loads(cacheproxy_setup(BOTH).content)["models"]["providers"]["cacheproxy"]
    assert provider["apiKey"] == "${OPENAI_API_KEY}"
    assert provider["headers"] == {TOKEN_HEADER: "${CACHEPROXY_TOKEN}"}
