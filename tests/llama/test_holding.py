"""A client that leaves a real server's prefill and asks again: the prompt is read once."""

import json
import time

import pytest
from cacheproxy_demo.embedded import write_model

from cacheproxy.child.process import ChildProxy as Proxy
from tests import needs
from tests.proxy.harness import eventually

from .replay import erase, start_server
from .test_prefill import connected

pytestmark = pytest.mark.llama

LONG = " of or in is to" * 1500
APIS = {
    "/v1/chat/completions": lambda said: {"messages": said},
    "/v1/responses": lambda said: {"input": said[0]["content"]},
    "/v1/messages": lambda said: {"messages": said, "max_tokens": 3},
}
SLOTS = ("1", "4")


@pytest.fixture(scope="module", params=SLOTS)
def servers(request, tmp_path_factory):
    """One whose model takes its time, with one slot or four, and the proxy before it."""
    needs.llama()
    folder = tmp_path_factory.mktemp("slow")
    model = write_model(folder / "slow.gguf", size="slow")
    slots = {"n_parallel": int(request.param), "n_ctx": 16_384 * int(request.param)}
    settings = {"n_batch": 256, "n_ubatch": 256, "n_predict": 3, **slots}
    with (
        start_server(model, folder, **settings) as server,
        Proxy(server.url, "--poll", "1") as proxy,
    ):
        yield server, proxy


@pytest.mark.parametrize("api", APIS)
def test_the_retry_costs_nothing(servers, api):
    """With the members in another order, as Codex has it, or without stream, as Claude Code."""
    server, proxy = servers
    erase(server.url)
    said = [{"role": "user", "content": f"{api}: {LONG}"}]
    body = {"model": "random", "stream": True, "seed": 1, **APIS[api](said)}
    begun = len(server.log())

    def tasks():
        return server.log()[begun:].count("new prompt")

    client = connected(proxy.url).ask(api, json.dumps(body).encode())
    eventually(lambda: tasks() == 1)
    for delay, again in (
        (0.1, body),
        (0.3, dict(reversed(body.items()))),
        (0.1, body | {"stream": False}),
    ):
        client.close()
        time.sleep(delay)
        client = connected(proxy.url).ask(api, json.dumps(again).encode())
    answer = client.answer()
    assert (answer.status, answer.end) == (200, "whole"), answer.body
    assert json.loads(answer.body)["usage"]
    assert tasks() == 1
