"""The banner: who listens where, what the upstream is, which rules are on."""

from __future__ import annotations

import pytest

from cacheproxy.core.prompt.client import Client
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.rule import Rule
from cacheproxy.core.servers.profile import ServerFacts
from cacheproxy.daemon import banner
from cacheproxy.plugin.package import Package
from cacheproxy.plugin.packages import Packages
from cacheproxy.words import short

EVAL = 'eval "$(cacheproxy env claude{option})" && claude'
ADDRESS = "http://127.0.0.1:8081"
RULES = [Rule("billing", "system", "x", "-"), Rule("date", "user", "y", "-")]
PACKAGE = Package("claude", "cacheproxy-claude-code", "0.1.0", tuple(RULES))
MANY = [Rule(f"rule-{number}", "user", "z", "-") for number in range(7)]
OTHER = Package("codex", "cacheproxy-codex", "0.1.0", tuple(MANY))


def rest(server=None, rules=(), packages=(), *, address=ADDRESS, lifetime=None, **more):
    keywords = {"edits": True, "open_to_others": False, "lifetime": lifetime} | more
    found = list(banner.rest(address, server, rules, Packages(packages), **keywords))
    assert found[0] == ""
    assert found[-2:] == ["", f"Ready. {lifetime}" if lifetime else "Ready."]
    return "\n".join(found)


def test_the_first_line_says_who_listens_where_and_where_requests_go():
    """Scripts read the address out of it."""
    assert banner.first_line("0.1.0", ADDRESS, "http://localhost:8080") == (
        "cacheproxy 0.1.0   http://127.0.0.1:8081  →  http://localhost:8080"
    )


def test_all_upstreams_are_named():
    """Each with what it is, or that it is not there."""
    known = ServerFacts("llama-server", "b1", "model.gguf")
    lines = rest(known, name="big", others=[("big2", None), ("small", known)]).split("\n")
    assert f"  upstream    big ONLINE: {known.summary}" in lines
    assert "  upstream    big2 OFFLINE: it does not answer yet" in lines
    assert f"  upstream    small ONLINE: {known.summary}" in lines
    assert "the others get its requests until it answers" in rest(name="big", others=[("b", known)])


START = [
    Package("a", "", "", client=Client("claude", title="Claude Code", start=EVAL)),
    Package("b", "", "", client=Client("cline", title="Cline", start="base URL {url}/v1")),
    Package("c", "", "", client=Client("codex", title="Codex", start="base URL {url}/v1")),
    Package("d", "", "", client=Client("other")),
]


def test_how_clients_get_here():
    """A line to copy for each that says so, and the dashboard."""
    assert f"  clients     base URL {ADDRESS} or {ADDRESS}/v1" in rest().split("\n")
    lines = rest(packages=START).split("\n")
    assert '  Claude Code   eval "$(cacheproxy env claude)" && claude' in lines
    assert f"  Cline, Codex  base URL {ADDRESS}/v1" in lines
    assert f"  dashboard   {ADDRESS}/_cacheproxy/" in lines


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("http://0.0.0.0:8082", "http://127.0.0.1:8082"),
        ("http://[::]:8082", "http://[::1]:8082"),
        ("http://192.168.1.2:8081", "http://192.168.1.2:8081"),
    ],
)
def test_an_address_that_the_commands_would_not_guess(address, shown):
    """It stands in the line, as clients on this machine can use it."""
    text = rest(packages=START, address=address)
    assert f'eval "$(cacheproxy env claude --proxy {shown})" && claude' in text
    assert f"base URL {shown}/v1" in text


def test_what_is_done_with_earlier_reasoning():
    """Nothing is said where nothing is done."""
    assert "  thinking    drops it: kept" in rest(words={"thinking": "drops it: kept"}).split("\n")
    assert "thinking" not in rest()


def test_a_socket_in_the_file_system():
    """Has no URL to copy."""
    text = rest(address="/run/proxy.sock")
    assert "proxy.sock" not in text
    assert "dashboard" not in text


def test_the_upstream():
    """What it says of itself, or that it does not answer yet."""
    server = ServerFacts("llama-server", "b9724", "Qwen3", 131_072, 4)
    shown = "  upstream    ONLINE: llama-server b9724 · Qwen3 · 131,072 context · 4 slots"
    assert shown in rest(server)
    assert "  upstream    OFFLINE: it does not answer yet; requests get 502" in rest(None)
    assert ("  upstream    OFFLINE: the TLS handshake; requests get 502") in rest(
        None, trouble="the TLS handshake"
    )


def totals(prompt, reused, requests, since=1_778_587_200.0, evaluated=1):
    figures = {"prompt": prompt, "reused": reused, "evaluated": evaluated, "requests": requests}
    return {"since": since, **figures}


def test_the_totals_in_one_sentence():
    """Behind the word that says it is ready; nothing where there are none."""
    line = banner.lifetime_line(totals(187_234, 171_132, 57))
    assert line == ("Lifetime: 187.2K prompt tokens, 91.4% reused, 57 requests since 12 May 2026.")
    assert "1 request since" in banner.lifetime_line(totals(10, 0, 1))
    assert "100.0% reused" in banner.lifetime_line(totals(10, 11, 1))
    assert "reused" not in banner.lifetime_line(totals(10, 0, 1, evaluated=0))  # nobody tells
    assert banner.lifetime_line(totals(0, 0, 0)) is None
    assert banner.lifetime_line(totals(0, 0, 0, since=None)) is None
    assert rest(lifetime=line).endswith(f"Ready. {line}")


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1.00K"), (187_234, "187.2K"), (8_410_000, "8.41M"),
     (1_204_118, "1.20M"), (2_500_000_000, "2.50G")],
)  # fmt: skip
def test_large_numbers_are_short(number, text):
    """Three figures and a letter."""
    assert short(number) == text


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"rules": RULES, "packages": [PACKAGE]}, "rules       billing, date"),
        ({"rules": RULES}, "rules       billing, date"),
        (
            {"rules": RULES + MANY, "packages": [PACKAGE, OTHER]},
            "rules       9 on, for claude, codex; cacheproxy rules lists them",
        ),
        ({"packages": [PACKAGE]}, "none; no rule of a client package is on"),
        ({"packages": [PACKAGE], "rules": BUILT_IN}, "-before; no rule of a client package is on"),
        ({"rules": BUILT_IN}, "pip install ./clients/*"),
        ({}, "pip install ./clients/*"),
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
    line = banner.lifetime_line(totals(999_999_999, 999_999_999, 9_999_999))
    far = "http://192.168.100.200:65535"
    texts = [
        *(rest(), rest(edits=False), rest(packages=[PACKAGE]), rest(open_to_others=True)),
        *(rest(lifetime=line), rest(address=far), rest(is_loop=True)),
    ]
    assert all(len(line) <= 96 for text in texts for line in text.split("\n"))
