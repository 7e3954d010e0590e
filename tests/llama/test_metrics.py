"""What the page says against the counters of the real server."""

import json

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.core.kinds.metrics_page import sample_of
from cacheproxy.http_client import Site
from tests import needs
from tests.metrics.builders import parsed, value
from tests.proxy.harness import eventually

pytestmark = pytest.mark.llama

WORDS = "of or in is to for and the not if " * 40
TURNS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    needs.llama()
    model = write_model(tmp_path_factory.mktemp("metrics") / "tiny.gguf")
    with LlamaServer(model, n_ctx=8192, n_parallel=2) as server:
        yield server


def get(url):
    return Site(url).get("").body.decode()


def ask(url, path, said):
    assert Site(url, {"X-Session-Id": path}).post(path, json.dumps(said).encode()).status == 200


def most_used(data):
    """Return the tokens in the fullest slot, by the last poll that ``data`` shows."""
    return max(slot["used"] or 0 for slot in json.loads(get(data))["upstream"]["slots"])


def test_tokens_are_those_that_the_server_counted(server, tmp_path):
    """Over both APIs, streamed and whole; its slots and its state are seen as well.

    The totals that are kept are of our answers alone, whatever the server has counted before.
    """
    ask(
        server.url,
        "/v1/messages",
        {"max_tokens": 3, "messages": [{"role": "user", "content": "a"}]},
    )
    before = sample_of(get(f"{server.url}/metrics")).figures.completed()
    with Proxy(server.url, "--poll", "0.2", "--state-dir", str(tmp_path)) as proxy:
        page = f"{proxy.url}/_cacheproxy/metrics"
        for path, first in (("/v1/messages", WORDS), ("/v1/chat/completions", f"the {WORDS}")):
            messages = [{"role": "user", "content": first}]
            for number in range(TURNS):
                said = {"model": "m", "max_tokens": 3, "stream": number % 2 == 0}
                if path.endswith("completions"):
                    said["stream_options"] = {"include_usage": True}
                ask(proxy.url, path, {**said, "messages": messages})
                messages += [
                    {"role": "assistant", "content": "of or in"},
                    {"role": "user", "content": f"in is to {number}"},
                ]
        requests = "cacheproxy_requests_total"
        eventually(lambda: value(parsed(get(page)), requests, status="2xx") == 2 * TURNS)
        eventually(lambda: value(parsed(get(page)), "cacheproxy_upstream_slots") == 2)
        data = f"{proxy.url}/_cacheproxy/data"
        eventually(lambda: most_used(data) > 200)  # by the poll that follows the last request
        found, seen = parsed(get(page)), json.loads(get(data))
    after = sample_of(get(f"{server.url}/metrics")).figures.completed()
    tokens = "cacheproxy_prompt_tokens_total"
    assert value(found, tokens, source="unknown") is None
    assert value(found, tokens, source="reused") == after.reused - before.reused > 0
    assert value(found, tokens, source="evaluated") == after.evaluated - before.evaluated
    generated = value(found, "cacheproxy_generated_tokens_total")
    assert generated == after.generated - before.generated
    kept = seen["lifetime"]
    assert (kept["requests"], kept["reused"]) == (2 * TURNS, after.reused - before.reused)
    assert (kept["evaluated"], kept["output"]) == (after.evaluated - before.evaluated, generated)
    assert value(found, "cacheproxy_upstream_up") == 1
    assert value(found, "cacheproxy_poll_age_seconds") < 60
    assert value(found, "cacheproxy_turns_total", verdict="ok") == 2 * (TURNS - 1)
    assert value(found, "cacheproxy_timed_seconds_total", phase="prompt") > 0
