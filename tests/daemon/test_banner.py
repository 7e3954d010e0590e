"""The banner: who listens where, what the upstream is, which rules are on (banner.txt)."""

from pathlib import Path

import pytest

from cacheproxy.core.kinds.profile import ServerFacts
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.rule import Rule
from cacheproxy.daemon import banner
from cacheproxy.plugin.package import Package
from cacheproxy.plugin.packages import Packages
from cacheproxy.words import short
from tests import golden

ADDRESS = "http://127.0.0.1:8081"
EVAL = 'eval "$(cacheproxy env claude{option})" && claude'
RULES = [Rule("billing", "system", "x", "-"), Rule("date", "user", "y", "-")]
MANY = [Rule(f"rule-{number}", "user", "z", "-") for number in range(7)]
PACKAGE = Package("claude", "cacheproxy-claude-code", "0.1.0", tuple(RULES))
OTHER = Package("codex", "cacheproxy-codex", "0.1.0", tuple(MANY))
BROKEN = Package("x", "cacheproxy-x", "1", error="ImportError: no such thing")
START = [
    Package("a", "", "", client=Client("claude", title="Claude Code", start=EVAL)),
    Package("b", "", "", client=Client("cline", title="Cline", start="base URL {url}/v1")),
    Package("c", "", "", client=Client("codex", title="Codex", start="base URL {url}/v1")),
    Package("d", "", "", client=Client("other")),
]
SERVER = ServerFacts("llama-server", "b9724", "Qwen3", 131_072, 4)


def totals(prompt, reused, requests, since=1_778_587_200.0, evaluated=1):
    figures = {"prompt": prompt, "reused": reused, "evaluated": evaluated, "requests": requests}
    return banner.lifetime_line({"since": since, **figures})


CASES = {
    "nothing is known": {},
    "a server that answers": {"server": SERVER},
    "a server with trouble": {"trouble": "the TLS handshake"},
    "several servers": {
        "server": SERVER,
        "name": "big",
        "others": [("big2", None), ("small", SERVER)],
    },
    "several servers, the first is down": {"name": "big", "others": [("b", SERVER)]},
    "how clients get here": {"packages": START},
    **{
        f"at {address}": {"packages": START, "address": address}
        for address in (
            *("http://127.0.0.1:9000", "http://0.0.0.0:8082", "http://[::]:8082"),
            *("http://192.168.100.200:65535", "/run/proxy.sock"),
        )
    },
    "what is done with reasoning": {"words": {"thinking": "drops it: kept"}},
    "rules of a package": {"rules": RULES, "packages": [PACKAGE]},
    "rules of the file": {"rules": RULES},
    "many rules": {"rules": RULES + MANY, "packages": [PACKAGE, OTHER]},
    "no rule is on": {"packages": [PACKAGE]},
    "only ours are on": {"packages": [PACKAGE], "rules": BUILT_IN},
    "only ours are there": {"rules": BUILT_IN},
    "not a local upstream": {"rules": RULES, "edits": False},
    "a package that could not be loaded": {"packages": [BROKEN]},
    "open to others": {"open_to_others": True},
    "it would loop": {"is_loop": True},
    "totals": {"lifetime": totals(187_234, 171_132, 57)},
    "large totals": {"lifetime": totals(999_999_999, 999_999_999, 9_999_999)},
    "totals of one request": {"lifetime": totals(10, 11, 1)},
    "totals, reuse not told": {"lifetime": totals(10, 0, 1, evaluated=0)},
    "no totals": {"lifetime": totals(0, 0, 0)},
    "no totals since ever": {"lifetime": totals(0, 0, 0, since=None)},
}


@pytest.mark.parametrize("name", CASES)
def test_what_it_says(name):
    """In 96 columns: lines to copy, and what changes what is missing."""
    found = {"address": ADDRESS, "server": None, "rules": (), "packages": ()} | CASES[name]
    keywords = {"edits": True, "open_to_others": False, "lifetime": None} | found
    places = [keywords.pop(one) for one in ("address", "server", "rules", "packages")]
    said = "\n".join(banner.rest(*places[:3], Packages(places[3]), **keywords))
    golden.agrees(Path(__file__).with_name("banner.txt"), name, said)
    assert all(len(line) <= 96 for line in said.split("\n"))


def test_the_first_line_says_who_listens_where_and_where_requests_go():
    """Scripts read the address out of it."""
    assert banner.first_line("0.1.0", ADDRESS, "http://localhost:8080") == (
        "cacheproxy 0.1.0   http://127.0.0.1:8081  →  http://localhost:8080"
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1.00K"), (187_234, "187.2K"), (8_410_000, "8.41M"),
     (1_204_118, "1.20M"), (2_500_000_000, "2.50G")],
)  # fmt: skip
def test_large_numbers_are_short(number, text):
    assert short(number) == text
