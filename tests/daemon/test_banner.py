"""The banner: who listens where, what the upstream is, which rules are on (banner.txt)."""

from cacheproxy.core.kinds.profile import ServerFacts
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.rule import Rule
from cacheproxy.daemon import banner
from cacheproxy.plugin.package import Package
from cacheproxy.plugin.packages import Packages
from cacheproxy.words import short
from tests import transcript

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


def says(*, address=ADDRESS, server=None, rules=(), packages=(), **more):
    keywords = {"edits": True, "open_to_others": False, "lifetime": None} | more
    said = "\n".join(banner.rest(address, server, rules, Packages(packages), **keywords))
    assert all(len(line) <= 96 for line in said.split("\n"))
    return said


def test_what_it_says():
    transcript.holds("banner.txt", globals() | {"short": short, "BUILT_IN": BUILT_IN})


def test_the_first_line_says_who_listens_where_and_where_requests_go():
    """Scripts read the address out of it."""
    assert banner.first_line("0.1.0", ADDRESS, "http://localhost:8080") == (
        "cacheproxy 0.1.0   http://127.0.0.1:8081  →  http://localhost:8080"
    )
