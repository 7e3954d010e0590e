"""What LibreChat is told."""

from __future__ import annotations

import yaml
from cacheproxy_librechat import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """YAML, with the header by which its requests are told; the model's window."""
    (endpoint,) = yaml.safe_load(cacheproxy_setup(FULL).content)["endpoints"]["custom"]
    assert endpoint["baseURL"] == f"{URL}/v1"
    assert endpoint["models"]["default"] == [FULL.model]
    assert endpoint["tokenConfig"][FULL.model]["context"] == 131_072
    name = "X-LibreChat-Session-Id"
    assert endpoint["headers"] == {name: "{{LIBRECHAT_BODY_CONVERSATIONID}}"}
    (both,) = yaml.safe_load(cacheproxy_setup(BOTH).content)["endpoints"]["custom"]
    assert both["apiKey"] == "${OPENAI_API_KEY}"
    assert both["headers"][TOKEN_HEADER] == "${CACHEPROXY_TOKEN}"
