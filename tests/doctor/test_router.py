"""A router that keeps no conversation at one server: seen, and told what mends it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest
from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.asking import Site
from cacheproxy.child.process import ChildProxy
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.servers.routers import ROUTERS
from cacheproxy.doctor import server_checks
from cacheproxy.doctor.facts import router_cure
from cacheproxy.doctor.trial import PromptSender
from tests import needs
from tests.doctor.builders import HEADS, facts
from tests.llama.routers import PAGE, recipes, routing
from tests.peer import speaking

PAGES = {
    "vllm-router": {"/list_workers": {"urls": []}, "/workers": {"workers": []}},
    "SMG": {"/workers": {"workers": []}, "/v1/models": {"data": [{"owned_by": "self_hosted"}]}},
    "sglang-router": {"/workers": {"workers": []}, "/v1/models": {"data": [{"owned_by": "local"}]}},
    "LiteLLM": {"/health/liveliness": "I'm alive!"},
}
"""As the real ones answer: vllm-router 0.1.17, smg 1.13.0, sglang-router 0.3.2, LiteLLM 1.106.2."""


@pytest.fixture(scope="module")
def three(model):
    """Three servers."""
    with ExitStack() as stack:
        yield [stack.enter_context(LlamaServer(model, n_ctx=8192)).url for _ in range(3)]


def haproxy(*, sticks):
    """The page's HAProxy; without its lines that keep a conversation."""
    recipe = recipes()["HAProxy"]
    lines = recipe.files["haproxy.cfg"].splitlines()
    kept = [line for line in lines if sticks or not line.strip().startswith("stick")]
    return recipe._replace(files={"haproxy.cfg": "\n".join(kept) + "\n"})


@pytest.mark.parametrize(("sticks", "named"), [(False, True), (True, False), (True, True)])
def test_a_router_that_takes_turns_is_seen(three, tmp_path, *, sticks, named):
    """Neither half is enough: the router must read the key, and the proxy send it."""
    needs.program("haproxy", "/usr/sbin/haproxy")
    recipe = haproxy(sticks=sticks)
    options = recipe.options if named else ()
    with (
        routing(recipe, three, tmp_path) as url,
        ChildProxy(url, "--placement", "quiet", *options) as proxy,
    ):
        through = Site(proxy.url)
        sender = PromptSender(upstream=Site(url), proxy=through, model="random", heads=HEADS)
        trial = sender.measure(CHAT, f"{sticks}{named}")
    assert trial.has_several is not (sticks and named)
    if trial.has_several:
        known = facts(trials=(trial,), router_cure=router_cure(Site(three[0])))
        finding = next(server_checks.reuse(known))
        assert finding.state is FindingState.FAIL
        assert "it and another did not. Several" in finding.text
        assert "--session-header X-Conversation-Key" in finding.fix


def test_a_server_that_keeps_nothing_is_no_router(three, model):
    """It was sent as often, and never reused."""
    with LlamaServer(model, n_ctx=8192, n_cache_reuse=0) as server:
        sender = PromptSender(upstream=Site(server.url), model="random", heads=HEADS)
        trial = sender.measure(CHAT, "one")
    assert not trial.has_several
    lost = replace(trial, second=trial.first, same=trial.first, repeated=trial.first)
    assert not lost.has_several
    assert replace(lost, repeated=trial.same).has_several


@pytest.mark.parametrize("router", ROUTERS, ids=lambda router: router.name)
def test_each_is_told_by_its_pages_and_gets_its_own_lines(router, peer):
    """The lines are those of the page, where they were run."""
    pages = PAGES.get(router.name)
    if pages is None:
        head = f"HTTP/1.1 200 OK\r\nServer: {router.name}/1.2\r\nContent-Length: 2\r\n\r\n{{}}"
        with speaking(head.encode()) as url:
            assert router_cure(Site(url)) == router.cure
    else:
        assert router_cure(Site(peer(pages).url)) == router.cure
    section = PAGE.read_text().split(f"### {router.name}\n")[1].split("\n### ")[0]
    assert router.line in section.replace("\\\n", " ")
    assert f"--session-header {router.header}{router.more}" in PAGE.read_text()


def test_another_gets_the_general_line(peer):
    """HAProxy shows itself nowhere."""
    assert "docs/fleet.md has the lines for each router" in router_cure(Site(peer({}).url))
