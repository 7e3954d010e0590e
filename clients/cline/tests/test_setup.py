"""What Cline is told."""

from __future__ import annotations

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
