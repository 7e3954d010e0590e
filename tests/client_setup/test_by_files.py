"""What clients are told that read a file."""

from __future__ import annotations

import json
import tomllib

import yaml

from cacheproxy.client_setup.by_files import cline, codex, crush, librechat, openclaw, opencode, pi
from cacheproxy.client_setup.need import Need

URL = "http://127.0.0.1:8081"
BARE = Need(URL)
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
TOKEN = Need(URL, token="SECRET", model="m", context=4096)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_codex():
    """TOML, with the Responses API; the key by its variable's name."""
    found = tomllib.loads(codex(FULL).content)
    assert found == {
        "model": FULL.model,
        "model_provider": "cacheproxy",
        "model_context_window": 131_072,
        "model_providers": {
            "cacheproxy": {
                "name": "cacheproxy",
                "base_url": f"{URL}/v1",
                "wire_api": "responses",
            }
        },
    }
    both = tomllib.loads(codex(BOTH).content)["model_providers"]["cacheproxy"]
    assert both["env_key"] == "OPENAI_API_KEY"
    assert both["env_http_headers"] == {TOKEN_HEADER: "CACHEPROXY_TOKEN"}


def test_codex_without_its_api():
    """A server that is known not to have it is warned of, one that was not asked is not."""
    (warning,) = codex(Need(URL, model="m", responses=False)).warnings
    assert "/v1/responses" in warning
    assert codex(Need(URL, model="m", responses=True)).warnings == ()
    assert codex(FULL).warnings == ()


def test_opencode():
    """A provider of its own, with the model's limits."""
    found = json.loads(opencode(FULL).content)
    provider = found["provider"]["cacheproxy"]
    assert found["model"] == f"cacheproxy/{FULL.model}"
    assert provider["npm"] == "@ai-sdk/openai-compatible"
    assert provider["options"] == {"baseURL": f"{URL}/v1", "apiKey": "cacheproxy"}
    assert provider["models"][FULL.model]["limit"] == {"context": 131_072, "output": 8192}
    options = json.loads(opencode(BOTH).content)["provider"]["cacheproxy"]["options"]
    assert options["apiKey"] == "{env:OPENAI_API_KEY}"
    assert options["headers"] == {TOKEN_HEADER: "{env:CACHEPROXY_TOKEN}"}


def test_openclaw():
    """A provider beside the others, and the model to begin with."""
    found = json.loads(openclaw(FULL).content)
    provider = found["models"]["providers"]["cacheproxy"]
    assert found["models"]["mode"] == "merge"
    assert found["agents"]["defaults"]["model"]["primary"] == f"cacheproxy/{FULL.model}"
    assert (provider["baseUrl"], provider["api"]) == (f"{URL}/v1", "openai-completions")
    (model,) = provider["models"]
    assert (model["contextWindow"], model["maxTokens"]) == (131_072, 8192)
    provider = json.loads(openclaw(BOTH).content)["models"]["providers"]["cacheproxy"]
    assert provider["apiKey"] == "${OPENAI_API_KEY}"
    assert provider["headers"] == {TOKEN_HEADER: "${CACHEPROXY_TOKEN}"}


def test_cline():
    """Fields of its settings."""
    setup = cline(FULL)
    assert f"Base URL:             {URL}/v1" in setup.content
    assert "Context Window Size:  131072" in setup.content
    assert setup.file is None
    assert TOKEN_HEADER in cline(BOTH).content


def test_pi():
    """A provider with the model's limits, and how to start with it."""
    setup = pi(FULL)
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
    both = json.loads(pi(BOTH).content)["providers"]["cacheproxy"]
    assert both["apiKey"] == "OPENAI_API_KEY"
    assert both["headers"] == {TOKEN_HEADER: "CACHEPROXY_TOKEN"}


def test_crush():
    """A provider beside its own, with the model's limits; for titles, too."""
    found = json.loads(crush(FULL).content)
    provider = found["providers"]["cacheproxy"]
    assert (provider["type"], provider["base_url"]) == ("openai-compat", f"{URL}/v1")
    (model,) = provider["models"]
    assert (model["context_window"], model["default_max_tokens"]) == (131_072, 8192)
    assert found["models"]["small"] == {"provider": "cacheproxy", "model": FULL.model}
    both = json.loads(crush(BOTH).content)["providers"]["cacheproxy"]
    assert both["api_key"] == "$OPENAI_API_KEY"
    assert both["extra_headers"] == {TOKEN_HEADER: "$CACHEPROXY_TOKEN"}


def test_librechat():
    """YAML, with the header by which its requests are told; the model's window."""
    (endpoint,) = yaml.safe_load(librechat(FULL).content)["endpoints"]["custom"]
    assert endpoint["baseURL"] == f"{URL}/v1"
    assert endpoint["models"]["default"] == [FULL.model]
    assert endpoint["tokenConfig"][FULL.model]["context"] == 131_072
    name = "X-LibreChat-Session-Id"
    assert endpoint["headers"] == {name: "{{LIBRECHAT_BODY_CONVERSATIONID}}"}
    (both,) = yaml.safe_load(librechat(BOTH).content)["endpoints"]["custom"]
    assert both["apiKey"] == "${OPENAI_API_KEY}"
    assert both["headers"][TOKEN_HEADER] == "${CACHEPROXY_TOKEN}"
