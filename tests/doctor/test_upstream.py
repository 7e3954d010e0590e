"""Which model server answers."""

from __future__ import annotations

import pytest
from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.asking import Site
from cacheproxy.doctor import upstream
from cacheproxy.doctor.finding import FindingState
from cacheproxy.doctor.proxy import TrafficLook


def findings(url):
    return upstream.check(upstream.look(Site(url)))


@pytest.mark.llama
def test_the_real_server(llama):
    """Which one, its context and slots, and that it counts."""
    server, metrics = findings(llama.url)
    assert (server.name, server.state) == ("upstream", FindingState.OK)
    assert "llama-server" in server.text
    assert "4,096 context · 2 slots" in server.text
    assert (metrics.name, metrics.state) == ("metrics", FindingState.OK)


@pytest.mark.llama
def test_without_metrics_and_with_a_key(model):
    """Both are said, with what mends them; slots tell of work where counters do not."""
    with LlamaServer(model, n_ctx=512, endpoint_metrics=False, api_keys=["secret"]) as server:
        (locked,) = findings(server.url)
        key = {"Authorization": "Bearer secret"}
        seen = upstream.look(Site(server.url, key))
    assert (locked.state, locked.fix) == (FindingState.FAIL, "give the key with --api-key KEY")
    assert upstream.check(seen)[1].fix == "add --metrics to the llama-server command line"
    assert seen.look.sample is None
    assert len(seen.look.slots) == 1


@pytest.mark.llama
def test_work_is_seen_in_the_counters(llama, site):
    """Tokens evaluated between two looks."""
    before = TrafficLook(upstream.look(site).look, None)
    body = b'{"messages":[{"role":"user","content":"river garden house"}],"max_tokens":1}'
    assert site.post("/v1/chat/completions", body, 30).status == 200
    after = TrafficLook(upstream.look(site).look, None)
    assert after.since(before) > 3
    assert after.worked_since(before) is True
    assert after.worked_since(after) is False


def test_nobody_there(nobody):
    """The reason in the system's words."""
    (finding,) = findings(nobody)
    assert finding.state is FindingState.FAIL
    assert finding.text == f"no model server answers at {nobody}: Connection refused"


LOADING = (503, {"error": {"message": "Loading model"}})
HEALTH = {"version": "0.1.0", "upstream": {}}


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ({}, "is not a model server: it"),
        (
            {"/v1/models": ["x"], "/props": {"a": 1}, "/api/version": None},
            ("is not a model server: it"),
        ),
        (dict.fromkeys(("/props", "/v1/models"), LOADING), "is not ready: Loading model"),
        (
            {"/_cacheproxy/health": HEALTH, "/v1/models": {"data": []}},
            "is a cacheproxy, not the model server behind it",
        ),
    ],
)
def test_what_is_no_model_server_or_not_yet(peer, pages, words):
    """llama-server answers 503 while it loads; through a proxy no server would need one."""
    (finding,) = findings(peer(pages).url)
    assert finding.state is FindingState.FAIL
    assert words in finding.text
