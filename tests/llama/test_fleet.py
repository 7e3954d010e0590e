"""Three real servers behind the HAProxy of docs/fleet.md, with recorded conversations.

The other routers of the page are run by ``benchmarks/routers.py``.
"""

import re
from contextlib import ExitStack

import pytest
from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.child.process import ChildProxy
from cacheproxy.testing import find_captures
from tests import needs

from .replay import load_sessions, write_model_for
from .routers import PAGE, SETTINGS, Fleet, drive, recipes, routing, sent_of

CAPTURES = ("claude-bare", "pi-datechange", "aider-stdin")
QUIET = ("--placement", "quiet")
"""Test prompts of the proxy's own would be counted as well."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    needs.llama()
    files = [find_captures(f"{name}.jsonl", __file__)[0] for name in CAPTURES]
    found = [session for file in files for session in load_sessions(file)]
    return write_model_for(tmp_path_factory.mktemp("fleet") / "m.gguf", found)


def fresh(model, stack):
    return Fleet(
        [stack.enter_context(LlamaServer(model, **SETTINGS | {"n_ctx": 32_768})) for _ in range(3)]
    )


def test_a_conversation_stays_at_one_server_by_its_key(model, tmp_path):
    """It costs what it costs where no router chooses; without the key, by the same file, more."""
    needs.program("haproxy", "/usr/sbin/haproxy")
    recipe = recipes()["HAProxy"]
    tallies = []
    for options in (recipe.options, ()):
        folder = tmp_path / str(len(options))
        folder.mkdir()
        with ExitStack() as stack:
            fleet = fresh(model, stack)
            router = stack.enter_context(routing(recipe, fleet.urls, folder))
            proxy = stack.enter_context(ChildProxy(router, *options, *QUIET))
            tallies.append(drive(sent_of(CAPTURES), fleet, lambda _, url=proxy.url: url))
    with_key, without = tallies
    with ExitStack() as stack:
        fleet = fresh(model, stack)
        proxies = [stack.enter_context(ChildProxy(url, *QUIET)).url for url in fleet.urls]
        direct = drive(sent_of(CAPTURES), fleet, lambda key: proxies[with_key.homes[key]])
    assert with_key.statuses == without.statuses == direct.statuses == []
    assert set(with_key.homes.values()) == {0, 1, 2}
    assert with_key.moved == direct.moved == 0
    assert abs(with_key.evaluated - direct.evaluated) <= direct.evaluated / 100
    assert without.moved > 0
    assert without.evaluated > with_key.evaluated


def test_the_page_has_a_file_or_a_command_for_each_router():
    """And its ports are those of the picture."""
    found = recipes()
    assert list(found) == [
        *("HAProxy", "nginx", "Caddy", "Envoy"),
        *("vllm-router", "SMG", "sglang-router", "LiteLLM", "Ray Serve"),
    ]
    for recipe in found.values():
        text = "".join([recipe.command, *recipe.files.values()])
        assert set(re.findall(r"\b90\d\d\b", text)) == {"9000", "9001", "9002", "9003"}
        assert recipe.options[0] == "--session-header"
        assert recipe.options[1] in PAGE.read_text()
