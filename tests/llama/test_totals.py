"""Totals of a real server's answers, over its restarts and ours; and what a look at it tells."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model
from twisted.internet.defer import Deferred
from twisted.internet.selectreactor import SelectReactor

from cacheproxy.asking import Site
from cacheproxy.core.conversation.usage import UsageReader
from cacheproxy.core.servers.status import MetricsPage, UpstreamState
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.servers.asker import Asker
from cacheproxy.proxy.servers.poller import Poller
from cacheproxy.proxy.upstream.upstream import Upstream, UpstreamURL
from cacheproxy.totals.totals import Totals
from cacheproxy.totals.windows import lifetime
from tests import needs
from tests.observe.exchanges import exchange
from tests.proxy.harness import eventually, free_port

TOKENS = ("prompt", "reused", "output")
WORDS = "of or in is to for and the not if " * 20
PATHS = ("/v1/messages", "/v1/chat/completions")

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    needs.llama()
    return write_model(tmp_path_factory.mktemp("totals") / "tiny.gguf")


class Setup:
    """A server at one address and what keeps totals of it; each can be restarted."""

    def __init__(self, model, folder):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.truth = dict.fromkeys(TOKENS, 0)
        self.asked = 0
        self._model = model
        self._folder = folder
        self._reactor = SelectReactor()
        self.begin()
        self.serve()

    def serve(self):
        self.server = LlamaServer(self._model, n_ctx=4096, n_parallel=2, port=self.port)

    def restart_server(self):
        self.server.close()
        self.serve()

    def begin(self):
        self.totals = Totals(self._reactor, self._folder, time.time)
        self.totals.check()
        self._plugins = Plugins()
        self._plugins.register(self.totals, "totals")
        upstream = Upstream(self._reactor, UpstreamURL.parse(self.url), 2.0)
        self._poller = Poller(Asker(self._reactor, upstream, time.time), 10.0, self.totals.looked)

    def restart_proxy(self):
        self.totals.close()
        self.begin()

    def ask(self, *, recorded=True):
        """A request as the proxy would see it: streamed, in one dialect or the other."""
        self.asked += 1
        path = PATHS[self.asked % 2]
        said = {
            "model": "whatever",
            "max_tokens": 5,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": f"{WORDS} {self.asked % 3}"}],
        }
        began = time.monotonic()
        reader = UsageReader("text/event-stream")
        reader.feed(Site(self.url).post(path, json.dumps(said).encode()).body)
        if recorded:
            usage = reader.close()
            assert usage.prompt
            for name in TOKENS:
                self.truth[name] += getattr(usage, name) or 0
            finished = exchange(said, usage=usage, upstream=self.url)
            seconds = time.monotonic() - began
            self._plugins.finished([replace(finished, wall=time.time(), seconds=seconds)])

    def look(self):
        found = []
        Deferred.fromCoroutine(self._poller.look()).addBoth(found.append)
        self._turn_until(lambda: found)
        self.totals.looked(found[0])
        return found[0]

    def lifetime(self):
        found = []
        self.totals.ask(lifetime).addBoth(found.append)
        self._turn_until(lambda: found)
        return found[0]

    def _turn_until(self, condition):
        def holds():
            self._reactor.iterate(0.01)
            return condition()

        eventually(holds)

    def close(self):
        self.totals.close()
        self.server.close()


@pytest.fixture
def setup(model, tmp_path):
    setup = Setup(model, tmp_path)
    yield setup
    setup.close()


def test_totals_are_the_sum_of_what_our_answers_told(setup):
    """Over restarts of the server and ours, whatever the server's counters say."""
    setup.ask(recorded=False)  # somebody else's, before we were there
    assert setup.look().metrics is MetricsPage.ON
    found = setup.lifetime()
    assert (found["since"], found["requests"], found["prompt"]) == (None, 0, 0)
    for _ in range(3):
        setup.ask()
    setup.restart_server()
    setup.look()
    setup.ask(recorded=False)
    setup.ask()
    setup.restart_proxy()
    setup.ask()
    setup.look()
    found = setup.lifetime()
    assert {name: found[name] for name in TOKENS} == setup.truth
    assert (found["requests"], found["evaluated"]) == (5, found["prompt"] - found["reused"])
    setup.server.close()
    assert setup.look().state is UpstreamState.DOWN


def test_slots_tell_how_full_they_are(setup):
    setup.ask()
    seen = setup.look()
    assert len(seen.slots) == 2
    assert max(slot.used for slot in seen.slots) > 200
    assert 0 < seen.kv < 1
    assert not any(slot.busy for slot in seen.slots)
    assert seen.server.context == 2048
