"""What Claude Code is told."""

from __future__ import annotations

import pytest
from cacheproxy_claude_code import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
BARE = Need(URL)
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
TOKEN = Need(URL, token="SECRET", model="m", context=4096)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """Its window is taken for names it does not know: so it is told the server's own name."""
    assert cacheproxy_setup(FULL).variables == {
        "ANTHROPIC_BASE_URL": URL,
        "ANTHROPIC_AUTH_TOKEN": "cacheproxy",
        "ANTHROPIC_MODEL": FULL.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": FULL.model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": FULL.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": FULL.model,
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "131072",
    }
    assert cacheproxy_setup(FULL).unset == ("ANTHROPIC_API_KEY",)
    assert set(cacheproxy_setup(BARE).variables) == {"ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"}
    assert cacheproxy_setup(TOKEN).variables["ANTHROPIC_AUTH_TOKEN"] == "SECRET"
    found = cacheproxy_setup(BOTH).variables
    assert found["ANTHROPIC_AUTH_TOKEN"] == "SERVERKEY"
    assert found["ANTHROPIC_CUSTOM_HEADERS"] == f"{TOKEN_HEADER}: SECRET"


def test_a_name_that_it_knows():
    """Another variable makes the window smaller."""
    found = cacheproxy_setup(Need(URL, model="claude-local", context=65_536)).variables
    assert found["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "65536"


@pytest.mark.parametrize(
    ("late", "is_off"),
    [
        *((late, True) for late in ("hoisted", "refused", "dropped", "unknown")),
        *((late, False) for late in ("inline", "user", None)),
    ],
)
def test_the_countdown_is_off_where_the_server_would_not_leave_it_in_its_place(late, is_off):
    """A note says why; a server that is not known at all is taken to."""
    setup = cacheproxy_setup(Need(URL, late=late))
    assert setup.variables.get("CLAUDE_CODE_TOTAL_TOKENS_REMINDER") == ("off" if is_off else None)
    assert ("token countdown" in "".join(setup.notes)) is is_off


def test_the_tool_search():
    """Is the user's choice: the price of both stands in a note."""
    (note,) = cacheproxy_setup(FULL).notes
    assert "ENABLE_TOOL_SEARCH=false" in note
    assert "ENABLE_TOOL_SEARCH" not in cacheproxy_setup(FULL).variables
