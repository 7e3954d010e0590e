"""What each client is told."""

from __future__ import annotations

import json
import tomllib

import pytest

from cacheproxy.agents.need import Need
from cacheproxy.agents.setups import (
    CLIENTS,
    aider,
    claude,
    cline,
    codex,
    openclaw,
    opencode,
    pi,
    qwen,
)

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


@pytest.mark.parametrize(
    ("late", "is_off"),
    [
        *((late, True) for late in ("hoisted", "refused", "dropped", "unknown")),
        *((late, False) for late in ("inline", "user", None)),
    ],
)
def test_claudes_countdown_is_off_where_the_server_would_not_leave_it_in_its_place(late, is_off):
    """A note says why; a server that is not known at all is taken to."""
    setup = claude(Need(URL, late=late))
    assert setup.variables.get("CLAUDE_CODE_TOTAL_TOKENS_REMINDER") == ("off" if is_off else None)
    assert ("token countdown" in "".join(setup.notes)) is is_off


def test_claudes_tool_search():
    """Is the user's choice: the price of both stands in a note."""
    (note,) = claude(FULL).notes
    assert "ENABLE_TOOL_SEARCH=false" in note
    assert "ENABLE_TOOL_SEARCH" not in claude(FULL).variables


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
    for client in (aider, qwen):
        (warning,) = client(BOTH).warnings
        assert "cannot send the proxy's token" in warning
        assert client(TOKEN).warnings == ()


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


@pytest.mark.parametrize("name", CLIENTS)
def test_files_hold_no_secret(name):
    """They can be shown and shared; shells need the value."""
    for need in (TOKEN, BOTH):
        setup = CLIENTS[name](need)
        text = f"{setup.content} {setup.notes}"
        assert "SECRET" not in text
        assert "SERVERKEY" not in text
        assert bool(setup.variables) != bool(setup.content)
        if setup.file:
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
