"""A conversation that its client summarises, on a real server: no break, wherever one looks."""

from __future__ import annotations

import json

import pytest
from cacheproxy_demo import conversation
from cacheproxy_demo.client import DemoClient
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.asking import Site
from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.core.diagnose.conversations import lanes_of
from cacheproxy.core.diagnose.report import report_captured
from cacheproxy.record.files import read
from tests import needs
from tests.proxy.harness import eventually

pytestmark = pytest.mark.llama

TURNS = 3
SUMMARY = "This session goes on from an earlier conversation. In short: of or in is to for and."


def bodies(recorded):
    """The turns of a recorded conversation, the request for a summary, and what follows it."""
    turns = [recorded.body(number) for number in range(1, TURNS + 1)]
    last = turns[-1]["messages"]
    asked = {"role": "user", "content": "Write a summary of this conversation. Call no tool."}
    answer = {"role": "assistant", "content": "of or in is to for and"}
    begun = [{"role": "user", "content": SUMMARY}, answer, last[0]]
    messages = ([*last, answer, asked], begun, [*begun, answer, {"role": "user", "content": "go"}])
    return [*turns, *({**turns[-1], "messages": each} for each in messages)]


def page(proxy, path):
    return Site(proxy.url).get(f"/_cacheproxy/{path}").body


@pytest.fixture
def server(tmp_path):
    """A server whose model knows the conversation's words."""
    needs.llama()
    text = json.dumps(conversation.load().last)
    with LlamaServer(write_model(tmp_path / "tiny.gguf", text=text)) as server:
        yield server


def test_a_compaction_is_no_break_live_and_captured(server, tmp_path):
    """Log, metrics, diagnosis and capture say the same of each turn."""
    recorded = conversation.load()
    with Proxy(server.url, "--capture", str(tmp_path / "captures")) as proxy:
        client = DemoClient(proxy.url, recorded.headers)
        for body in bodies(recorded):
            client.post("/v1/messages", {**body, "max_tokens": 1, "stream": False})
        exchanges = json.loads(page(proxy, "exchanges"))["exchanges"]
        live = json.loads(page(proxy, f"diagnose/{exchanges[4]['number']}"))
        counted = page(proxy, "metrics").decode()
        eventually(lambda: proxy.log().count("claude/") == len(exchanges))
        log = proxy.log()
    judged = [one["verdict"] for one in exchanges]
    assert judged == ["cold", "ok", "ok", "ok", "compacted", "ok"]
    head = exchanges[4]["usage"]["reused"]
    assert head > exchanges[4]["usage"]["prompt"] / 2
    assert (log.count("  compacted  "), log.count("BREAK")) == (1, 0)
    assert 'verdict="compacted"} 1.0' in counted
    assert "cacheproxy_breaks_total{" not in counted
    records, problems = read([str(tmp_path / "captures")])
    (lane,) = lanes_of(records)
    assert problems == []
    found = [report_captured(lane, index).judgement for index in range(len(judged))]
    assert found == judged
    assert live["judgement"] == "compacted"
