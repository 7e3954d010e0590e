"""What Gemini CLI is told."""

from __future__ import annotations

from cacheproxy_gemini_cli import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
BARE = Need(URL)
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """Variables, and a warning: few servers speak its API."""
    setup = cacheproxy_setup(FULL)
    assert setup.variables == {
        "GOOGLE_GEMINI_BASE_URL": URL,
        "GEMINI_API_KEY": "cacheproxy",
        "GEMINI_MODEL": FULL.model,
    }
    assert "Google's API" in setup.warnings[0]
    both = cacheproxy_setup(BOTH).variables
    assert both["GEMINI_CLI_CUSTOM_HEADERS"] == f"{TOKEN_HEADER}: SECRET"
    assert "GEMINI_MODEL" not in cacheproxy_setup(BARE).variables
