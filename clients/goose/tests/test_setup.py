"""What goose is told."""

from __future__ import annotations

from cacheproxy_goose import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
BARE = Need(URL)
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """Its OpenAI provider, with the server's window."""
    assert cacheproxy_setup(FULL).variables == {
        "GOOSE_PROVIDER": "openai",
        "OPENAI_HOST": URL,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": "cacheproxy",
        "GOOSE_MODEL": FULL.model,
        "GOOSE_CONTEXT_LIMIT": "131072",
    }
    assert cacheproxy_setup(BOTH).variables["OPENAI_CUSTOM_HEADERS"] == f"{TOKEN_HEADER}=SECRET"
    assert "GOOSE_MODEL" not in cacheproxy_setup(BARE).variables
