"""What Cline is told."""

from __future__ import annotations

import json
from dataclasses import replace

from cacheproxy_cline import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """Fields of its settings."""
    setup = cacheproxy_setup(FULL)
    assert f"Base URL:             {URL}/v1" in setup.content
    assert "Context Window Size:  131072" in setup.content
    assert setup.file is None
    assert TOKEN_HEADER in cacheproxy_setup(BOTH).content


def test_its_command_is_started_with_a_file():
    """In the place of what `cline auth` writes; without its daemon, which would stay."""
    launch = cacheproxy_setup(replace(BOTH, folder="/there")).launch
    assert launch.variables["CLINE_PROVIDER_SETTINGS_PATH"] == "/there/providers.json"
    assert launch.variables["CLINE_SESSION_BACKEND_MODE"] == "local"
    found = json.loads(launch.files["providers.json"])
    assert found["providers"][found["lastUsedProvider"]]["settings"] == {
        "provider": "openai-compatible",
        "apiKey": "SERVERKEY",
        "model": "m",
        "baseUrl": f"{URL}/v1",
        "headers": {TOKEN_HEADER: "SECRET"},
    }
