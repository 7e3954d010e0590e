"""What aider is told."""

from __future__ import annotations

from cacheproxy_aider import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
BARE = Need(URL)
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
TOKEN = Need(URL, token="SECRET", model="m", context=4096)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)


def test_what_it_is_told():
    """Variables, and a warning where the token needs a header."""
    assert cacheproxy_setup(FULL).variables == {
        "OPENAI_API_BASE": f"{URL}/v1",
        "OPENAI_API_KEY": "cacheproxy",
        "AIDER_MODEL": f"openai/{FULL.model}",
    }
    assert "AIDER_MODEL" not in cacheproxy_setup(BARE).variables
    (warning,) = cacheproxy_setup(BOTH).warnings
    assert "aider cannot send both the proxy's token" in warning
    assert cacheproxy_setup(TOKEN).warnings == ()
