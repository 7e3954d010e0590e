"""Totals against the real server's own counters, over its restarts and ours."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.selectreactor import SelectReactor

from cacheproxy.asking import Site
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.server.metrics_page import sample_of
from cacheproxy.core.server.status import Metrics, State
from cacheproxy.embedded import LlamaServer, write_model
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.learning.poller import Poller
from cacheproxy.proxy.upstream.upstream import Upstream, UpstreamURL
from cacheproxy.totals.snapshot import BOTH, COUNTERS, RESPONSES, lifetime
from cacheproxy.totals.totals import Totals
from tests import needs
from tests.observe.exchanges import exchange
from tests.proxy.harness import eventually, free_port

TOKENS = ("prompt", "reused", "evaluated", "generated")
WORDS = "of or in is to for and the not if " * 20
PATHS = ("/v1/messages", "/v1/chat/completions")

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    needs.llama()
    return write_model(tmp_path_factory.mktemp("totals") / "tiny.gguf")


class Setup:
    """A server at one address and what keeps totals of it; each can be restarted."""

    def __init__(self, model, folder, **settings):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.truth = dict.fromkeys(TOKENS, 0)
        self.asked = 0
        self._model = model
        self._folder = folder
        self._settings = settings
        self._reactor = SelectReactor()
        self.begin()
        self.serve()

    def serve(self):
        self.server = LlamaServer(
            self._model, n_ctx=4096, n_parallel=2, port=self.port, **self._settings
        )

    def end_server(self):
        """What it counted in its life is the truth."""
        if self._settings.get("endpoint_metrics", True):
            figures = sample_of(Site(self.url).get("/metrics").body.decode()).figures.completed()
            for name in TOKENS:
                self.truth[name] += getattr(figures, name)
        self.server.close()

    def restart_server(self):
        self.end_server()
        self.serve()

    def begin(self):
        self.totals = Totals(self._reactor, self._folder, time.time)
        self.totals.check()
        self._plugins = Plugins()
        self._plugins.register(self.totals, "totals")
        upstream = Upstream(self._reactor, UpstreamURL.parse(self.url), 2.0)
        self._poller = Poller(upstream, 10.0, self.totals.looked, self._reactor, wall=time.time)

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
            finished = exchange(said, usage=usage, upstream=self.url)
            seconds = time.monotonic() - began
            self._plugins.finished(replace(finished, wall=time.time(), seconds=seconds))

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


def test_totals_are_the_sum_of_the_servers_counters(setup):
    """Over three restarts of the server and two of ours, wherever the last look was."""
    assert setup.look().metrics is Metrics.ON
    for _ in range(3):
        setup.ask()
    setup.look()
    setup.ask()  # nobody looks again before the server ends
    setup.restart_server()
    setup.ask()
    setup.ask()
    setup.look()
    setup.restart_proxy()
    setup.ask()
    setup.ask(recorded=False)  # somebody else's
    setup.look()
    setup.ask()
    setup.restart_server()
    setup.ask(recorded=False)
    setup.look()
    setup.ask()
    setup.restart_proxy()
    setup.restart_server()
    setup.ask()
    setup.look()
    found = setup.lifetime()
    setup.end_server()
    figures = found["all"]["figures"]
    assert {name: figures[name]["value"] for name in TOKENS} == setup.truth
    assert figures["prompt"]["source"] == BOTH
    assert found["all"]["exchanges"] == 10
    (target,) = found["targets"]
    assert target["model"] == "random"
    assert setup.look().state is State.DOWN


def test_a_restart_shows_though_no_counter_has_fallen(setup):
    """The server that has begun anew has done more by the next look than the one before."""
    setup.ask()
    setup.look()
    setup.restart_server()
    for _ in range(4):
        setup.ask(recorded=False)
    setup.look()
    found = setup.lifetime()["all"]["figures"]
    setup.end_server()
    assert {name: found[name]["value"] for name in TOKENS} == setup.truth
    assert found["prompt"]["source"] == COUNTERS


def test_without_metrics_totals_come_from_responses(model, tmp_path):
    setup = Setup(model, tmp_path, endpoint_metrics=False)
    assert setup.look().metrics is Metrics.OFF
    setup.ask()
    setup.ask()
    setup.restart_server()
    setup.ask()
    setup.look()
    found = setup.lifetime()["all"]
    setup.close()
    assert found["exchanges"] == 3
    assert found["figures"]["prompt"]["source"] == RESPONSES
    assert found["figures"]["prompt"]["value"] > 600
    assert found["figures"]["generated"]["value"] > 0


def test_slots_tell_how_full_they_are(setup):
    setup.ask()
    seen = setup.look()
    assert len(seen.slots) == 2
    assert max(slot.used for slot in seen.slots) > 200
    assert 0 < seen.kv < 1
    assert not any(slot.busy for slot in seen.slots)
    assert seen.server.context == 2048
