"""The setting that a crowd is told to take lowers what it evaluates, on the real llama.cpp."""

import time

import pytest
from cacheproxy_demo.embedded import write_model

from benchmarks.crowds import CROWDS, Server, started
from cacheproxy.child.process import ChildProxy
from cacheproxy.cli.runtext import Run
from cacheproxy.core.kinds.crowds import Crowd
from cacheproxy.doctor.facts import look_at_proxy
from cacheproxy.http_client import Site
from tests import needs
from tests.proxy.harness import eventually

pytestmark = pytest.mark.slow


def cards(site):
    """What the page says of the crowd."""
    return [card for card in site.tell("/_cacheproxy/data")["todo"] if card["id"] == "crowd"]


def test_the_setting_that_is_named_helps(tmp_path):
    """By page, doctor and ``run`` alike."""
    needs.llama()
    model = tmp_path / "tiny.gguf"
    write_model(model)
    began = time.time()
    with started(model, 1, ram=True) as llama, ChildProxy(llama.url) as proxy:
        before, site = Server(proxy.url), Site(proxy.url)
        CROWDS[Crowd.TURNS](before)
        eventually(lambda: cards(site))
        (card,) = cards(site)
        assert card["title"] == "Conversations by turns lose their place to one another (2)"
        said, _, saved = card["why"].partition(" In the last ")
        assert said.startswith("llama-server: --slot-prompt-similarity 0.9: ")
        assert "it would have saved at most " in saved
        ((title, why),) = look_at_proxy(proxy.url, {}).evicted
        assert (title, why.partition(" In the last ")[0]) == (card["title"], said)
        assert said in Run(site, "", began, is_own=True).last_line(cure=False)
    with started(model, 1, ram=True, similarity=0.9) as llama, ChildProxy(llama.url) as proxy:
        after, site = Server(proxy.url), Site(proxy.url)
        CROWDS[Crowd.TURNS](after)
        assert not cards(site)
    assert after.evaluated < 0.7 * before.evaluated
