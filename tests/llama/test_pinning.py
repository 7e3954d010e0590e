"""Claude Code on a server with two slots, with what it asks between the turns."""

from __future__ import annotations

import copy
import http.client
import json
from urllib.parse import urlsplit

import pytest

from cacheproxy.demo import conversation
from cacheproxy.embedded import LlamaServer, write_model
from tests import needs

from .replay import Proxy

pytestmark = pytest.mark.llama

TURNS = 3
TITLE = {
    "model": "m",
    "max_tokens": 1,
    "system": [{"type": "text", "text": "Write a title for the conversation, five words at most."}],
    "messages": [{"role": "user", "content": "of or in is to for and the not if " * 40}],
}


@pytest.fixture(scope="module")
def two_slots(tmp_path_factory):
    """A server whose slots each hold the whole conversation."""
    needs.llama()
    model = write_model(
        tmp_path_factory.mktemp("model") / "tiny.gguf", text=json.dumps(conversation.load().last)
    )
    with LlamaServer(model, n_parallel=2, kv_unified=False, n_ctx=131_072) as server:
        yield server


def ask(url, body, headers):
    """Return the prompt's tokens, and how many of them were reused, of one unstreamed answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    said = json.dumps({**body, "stream": False, "max_tokens": 1})
    fields = {"Content-Type": "application/json", **headers}
    connection.request("POST", "/v1/messages", said, fields)
    response = connection.getresponse()
    usage = json.loads(response.read())["usage"]
    connection.close()
    assert response.status == 200
    reused = usage.get("cache_read_input_tokens") or 0
    return reused + usage["input_tokens"], reused


def forked(body):
    """The same system text and tools, and a question of its own: what a subagent asks."""
    fork = copy.deepcopy(body)
    fork["messages"] = [{"role": "user", "content": "if not the and for to is in or of " * 60}]
    return fork


def run(server, mark, *options):
    """Return for each turn after the first how much of the turn before was reused."""
    recorded = conversation.load()
    shares, before = [], 0
    with Proxy(server.url, *options) as proxy:
        for number in range(1, TURNS + 1):
            body = conversation.marked(recorded.body(number), mark)
            tokens, reused = ask(proxy.url, body, recorded.headers)
            if before:
                shares.append(reused / before)
            before = tokens
            ask(proxy.url, TITLE, recorded.headers)
            ask(proxy.url, forked(body), recorded.headers)
    return shares


def test_a_conversation_keeps_its_slot(two_slots):
    """Each turn reuses 99 % of the turn before, whatever came in between."""
    shares = run(two_slots, "pinned", "--pin-slots")
    assert min(shares) >= 0.99
