"""What clients are told that read variables."""

from __future__ import annotations

import json

import pytest

from cacheproxy.client_setup.by_variables import aider, claude, gemini, goose, qwen
from cacheproxy.client_setup.need import Need

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
        assert "cannot send both the proxy's token" in warning
        assert client(TOKEN).warnings == ()


def test_gemini():
    """Variables, and a warning: few servers speak its API."""
    setup = gemini(FULL)
    assert setup.variables == {
        "GOOGLE_GEMINI_BASE_URL": URL,
        "GEMINI_API_KEY": "cacheproxy",
        "GEMINI_MODEL": FULL.model,
    }
    assert "Google's API" in setup.warnings[0]
    assert gemini(BOTH).variables["GEMINI_CLI_CUSTOM_HEADERS"] == f"{TOKEN_HEADER}: SECRET"
    assert "GEMINI_MODEL" not in gemini(BARE).variables


def test_goose():
    """Its OpenAI provider, with the server's window."""
    assert goose(FULL).variables == {
        "GOOSE_PROVIDER": "openai",
        "OPENAI_HOST": URL,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": "cacheproxy",
        "GOOSE_MODEL": FULL.model,
        "GOOSE_CONTEXT_LIMIT": "131072",
    }
    assert goose(BOTH).variables["OPENAI_CUSTOM_HEADERS"] == f"{TOKEN_HEADER}=SECRET"
    assert "GOOSE_MODEL" not in goose(BARE).variables
