"""What Crush is told."""

from __future__ import annotations

import json
from dataclasses import replace

from cacheproxy_crush import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """A provider beside its own, with the model's limits; for titles, too."""
    found = json.loads(cacheproxy_setup(FULL).content)
    provider = found["providers"]["cacheproxy"]
    assert (provider["type"], provider["base_url"]) == ("openai-compat", f"{URL}/v1")
    (model,) = provider["models"]
    assert (model["context_window"], model["default_max_tokens"]) == (131_072, 8192)
    assert found["models"]["small"] == {"provider": "cacheproxy", "model": FULL.model}
    both = json.loads(cacheproxy_setup(BOTH).content)["providers"]["cacheproxy"]
    assert both["api_key"] == "$OPENAI_API_KEY"
    assert both["extra_headers"] == {TOKEN_HEADER: "$CACHEPROXY_TOKEN"}


def test_it_is_started_with_its_file_in_another_folder():
    """That of its data, which is read after the user's own file."""
    setup = cacheproxy_setup(replace(FULL, folder="/there"))
    assert setup.launch.variables == {"CRUSH_GLOBAL_DATA": "/there"}
    assert setup.launch.files == {"crush.json": setup.content}
