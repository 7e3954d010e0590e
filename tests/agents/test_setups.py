"""What each client is told."""

from __future__ import annotations

import json
import tomllib

import pytest

from cacheproxy.agents.need import Need
from cacheproxy.agents.setups import CLIENTS, aider, claude, cline, codex, openclaw, opencode, qwen

URL = "http://127.0.0.1:8081"
BARE = Need(URL)
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
TOKEN = Need(URL, token="SECRET", model="m", context=4096)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_claude():
    """Its window is taken for names it does not know: so it is told the server's own name."""
    assert claude(FULL).variables == {
        "ANTHROPIC_BASE_URL": URL,
        "ANTHROPIC_AUTH_TOKEN": "cacheproxy",
        "ANTHROPIC_MODEL": FULL.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": FULL.model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": FULL.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": FULL.model,
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "131072",
    }
    assert claude(FULL).unset == ("ANTHROPIC_API_KEY",)
    assert set(claude(BARE).variables) == {"ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"}
    assert claude(TOKEN).variables["ANTHROPIC_AUTH_TOKEN"] == "SECRET"
    found = claude(BOTH).variables
    assert found["ANTHROPIC_AUTH_TOKEN"] == "SERVERKEY"
    assert found["ANTHROPIC_CUSTOM_HEADERS"] == f"{TOKEN_HEADER}: SECRET"


def test_claude_with_a_name_it_knows():
    """Another variable makes the window smaller."""
    found = claude(Need(URL, model="claude-local", context=65_536)).variables
    assert found["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "65536"


def test_aider_and_qwen():
    """Variables; Qwen Code's window goes into its file."""
    assert aider(FULL).variables == {
        "OPENAI_API_BASE": f"{URL}/v1",
        "OPENAI_API_KEY": "cacheproxy",
        "AIDER_MODEL": f"openai/{FULL.model}",
    }
    assert qwen(FULL).variables == {
        "OPENAI_BASE_URL": f"{URL}/v1",
        "OPENAI_API_KEY": "cacheproxy",
        "OPENAI_MODEL": FULL.model,
    }
    (note,) = qwen(FULL).notes
    setting = json.loads(note[note.index("{") :])
    assert setting == {"model": {"generationConfig": {"contextWindowSize": 131_072}}}
    assert "AIDER_MODEL" not in aider(BARE).variables
    assert "OPENAI_MODEL" not in qwen(BARE).variables
    assert (aider(BOTH).cannot_send_token, qwen(BOTH).cannot_send_token) == (True, True)
    assert not aider(TOKEN).cannot_send_token


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
    text = "\n".join(cline(FULL).notes)
    assert f"Base URL:             {URL}/v1" in text
    assert "Context Window Size:  131072" in text
    assert TOKEN_HEADER in "\n".join(cline(BOTH).notes)


@pytest.mark.parametrize("name", CLIENTS)
def test_files_hold_no_secret(name):
    """They can be shown and shared; shells need the value."""
    for need in (TOKEN, BOTH):
        setup = CLIENTS[name](need)
        text = f"{setup.content} {setup.notes}"
        assert "SECRET" not in text
        assert "SERVERKEY" not in text
        assert bool(setup.variables) != bool(setup.content) or name == "cline"
        if setup.content:
            assert setup.file.startswith("~/")
            assert "must be set where it runs" in text


@pytest.mark.parametrize("name", CLIENTS)
def test_without_a_running_proxy(name):
    """The base URL is there all the same, and no window is made up."""
    setup = CLIENTS[name](BARE)
    text = f"{setup.variables} {setup.content or ''} {setup.notes}"
    assert URL in text
    assert "None" not in text
    assert "null" not in text
    assert not [line for line in text.splitlines() if "ontext" in line]
