"""The banner: who listens where, what the upstream is, which rules are on."""

from __future__ import annotations

import pytest

from cacheproxy import banner
from cacheproxy.core.rules import Rule
from cacheproxy.core.server import Server
from cacheproxy.plugins import Package

ADDRESS = "http://127.0.0.1:8081"
RULES = [Rule("billing", "system", "x"), Rule("date", "user", "y")]
PACKAGE = Package("claude", "cacheproxy-claude-code", "0.1.0", tuple(RULES))


def rest(server=None, rules=(), packages=(), *, edits=True, open_to_others=False):
    found = list(
        banner.rest(ADDRESS, server, rules, packages, edits=edits, open_to_others=open_to_others)
    )
    assert found[0] == ""
    assert found[-2:] == ["", "Ready."]
    return "\n".join(found)


def test_the_first_line_says_who_listens_where_and_where_requests_go():
    """Scripts read the address out of it."""
    assert banner.first_line("0.1.0", ADDRESS, "http://localhost:8080") == (
        "cacheproxy 0.1.0   http://127.0.0.1:8081  →  http://localhost:8080"
    )


def test_how_clients_get_here():
    """A line to copy for each API, and the health page."""
    text = rest()
    assert f"ANTHROPIC_BASE_URL={ADDRESS} claude" in text
    assert f"base URL {ADDRESS}/v1" in text
    assert f"{ADDRESS}/_cacheproxy/health" in text


def test_the_upstream():
    """What it says of itself, or that it does not answer yet."""
    server = Server("llama-server", "b9724", "Qwen3", 131_072, 4)
    assert "  upstream    llama-server b9724 · Qwen3 · 131,072 context · 4 slots" in rest(server)
    assert "does not answer yet" in rest(None)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"rules": RULES, "packages": [PACKAGE]}, "rules       billing, date"),
        ({"rules": RULES}, "rules       billing, date"),
        ({"packages": [PACKAGE]}, "none is on"),
        ({}, "pip install cacheproxy-claude-code"),
        ({"rules": RULES, "edits": False}, "none: the upstream is not local"),
    ],
)
def test_which_rules_are_on(keywords, words):
    """Or why none is, and what changes that."""
    assert words in rest(**keywords)


def test_a_package_that_could_not_be_loaded_is_named():
    """With its error."""
    broken = Package("x", "cacheproxy-x", "1", error="ImportError: no such thing")
    text = rest(packages=[broken])
    assert "plugin      cacheproxy-x could not be loaded: ImportError: no such thing" in text


def test_it_says_how_other_machines_get_in():
    """And only then."""
    assert "token" in rest(open_to_others=True)
    assert "token" not in rest(open_to_others=False)


def test_lines_fit_a_terminal():
    """96 columns."""
    texts = [rest(), rest(edits=False), rest(packages=[PACKAGE]), rest(open_to_others=True)]
    assert all(len(line) <= 96 for text in texts for line in text.split("\n"))
