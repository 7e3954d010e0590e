"""Looks at an upstream over real sockets, on a reactor of the test's own."""

from __future__ import annotations

import json

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import Clock

from cacheproxy.core.servers.status import MetricsPage, UpstreamState
from cacheproxy.proxy.servers.asker import Asker
from cacheproxy.proxy.servers.poller import Poller
from cacheproxy.proxy.upstream.upstream import Upstream, UpstreamURL
from tests.proxy.harness import Upstream as Listening
from tests.proxy.harness import eventually, free_port, whole

LLAMA = {
    "/health": (200, b'{"status":"ok"}'),
    "/metrics": (200, b"llamacpp:prompt_tokens_total 385\nllamacpp:tokens_predicted_total 33\n"),
    "/slots": (200, b'[{"id":0,"n_ctx":2048,"is_processing":true,"id_task":7}]'),
    "/props": (
        200,
        b'{"default_generation_settings":{"n_ctx":2048},"total_slots":1,"media_marker":"<m1>"}',
    ),
    "/v1/models": (200, b'{"data":[{"id":"qwen"}]}'),
}


class Server(Listening):
    """Answers ``pages``, 404 for all others; ``asked`` has the paths that came."""

    def __init__(self, pages):
        self.pages = dict(pages)
        self.asked = []
        super().__init__()
        self.reset(self.answer)

    def answer(self, peer, received):
        path = received.line.split()[1].decode()
        self.asked.append(path)
        status, body = self.pages.get(path, (404, b"{}"))
        peer.send(whole(body, status=b"%d Status" % status))


@pytest.fixture(scope="module")
def reactor():
    return SelectReactor()


@pytest.fixture
def server():
    server = Server(LLAMA)
    yield server
    server.close()


def poller(reactor, url, deliver=lambda look: None, clock=None, **more):
    upstream = Upstream(reactor, UpstreamURL.parse(url), connect_timeout=2.0)
    return Poller(Asker(clock or reactor, upstream, lambda: 1e9), 10.0, deliver, **more)


def turn_until(reactor, condition):
    def holds():
        reactor.iterate(0.01)
        return condition()

    eventually(holds)


def look(reactor, poller):
    found = []
    Deferred.fromCoroutine(poller.look()).addBoth(found.append)
    turn_until(reactor, lambda: found)
    return found[0]


def test_a_look_at_llama_server(reactor, server):
    seen = look(reactor, poller(reactor, server.url))
    assert (seen.state, seen.metrics, seen.served) == (UpstreamState.UP, MetricsPage.ON, "qwen")
    assert seen.figures.evaluated == 385
    assert seen.tasks == 7
    assert seen.slots[0].busy
    assert seen.server.kind == "llama-server"
    assert (seen.url, seen.wall) == (server.url, 1e9)
    assert server.asked == [*LLAMA, "/api/version"]


def asked(server):
    """The paths that were asked for since the last time."""
    paths, server.asked[:] = [*server.asked], []
    return paths


@pytest.mark.parametrize("status", [401, 403, 404, 405, 501])
def test_pages_that_are_not_there_are_not_asked_for_again(reactor, server, status):
    """Nor is the list of models, which stays: it is enough that the server is there."""
    mlx = {"/health": LLAMA["/health"], "/v1/models": LLAMA["/v1/models"]}
    server.pages = dict.fromkeys((*LLAMA, "/api/version"), (status, b"{}")) | mlx
    asking = poller(reactor, server.url)
    first = look(reactor, asking)
    assert (first.state, first.metrics, first.served) == (UpstreamState.UP, MetricsPage.OFF, "qwen")
    assert len(asked(server)) == 6
    for _ in range(29):
        seen = look(reactor, asking)
        assert (seen.state, seen.metrics, seen.served) == (first.state, MetricsPage.OFF, "qwen")
    assert asked(server) == ["/health"] * 29
    look(reactor, asking)
    assert asked(server) == ["/health", "/v1/models"]


def test_after_the_server_was_away_all_is_asked_for(reactor, server):
    """What comes back may be another."""
    server.pages = {"/v1/models": LLAMA["/v1/models"]}
    asking = poller(reactor, server.url)
    look(reactor, asking)
    loading = (503, b'{"error":{"code":503,"message":"Loading model"}}')
    server.pages = dict.fromkeys(LLAMA, loading)
    seen = look(reactor, asking)
    assert (seen.state, seen.metrics) == (UpstreamState.LOADING, MetricsPage.UNKNOWN)
    server.pages = LLAMA
    asked(server)
    assert look(reactor, asking).metrics is MetricsPage.ON
    assert len(asked(server)) == 6


def test_a_server_without_a_page_of_health_is_seen_to_go(reactor):
    """Of Ollama its version is asked for, which costs it least."""
    version = (200, b'{"version":"0.33.3"}')
    server = Server({"/api/version": version, "/v1/models": LLAMA["/v1/models"]})
    asking = poller(reactor, server.url)
    look(reactor, asking)
    asked(server)
    assert look(reactor, asking).server.kind == "Ollama"
    assert asked(server) == ["/api/version"]
    server.close()
    assert look(reactor, asking).state is UpstreamState.DOWN


def test_counters_of_a_server_that_is_started_anew_are_read_at_once(reactor, server):
    """From when it counts must be known exactly."""
    server.pages = {**LLAMA, "/metrics": (501, b"{}")}
    asking = poller(reactor, server.url)
    assert look(reactor, asking).metrics is MetricsPage.OFF
    asked(server)
    assert look(reactor, asking).metrics is MetricsPage.OFF
    assert asked(server) == ["/health", "/slots", "/props"]
    anew = LLAMA["/props"][1].replace(b"<m1>", b"<m2>")
    server.pages = {**LLAMA, "/props": (200, anew)}
    seen = look(reactor, asking)
    assert (seen.metrics, seen.figures.evaluated) == (MetricsPage.ON, 385)
    assert asked(server).count("/metrics") == 1


def test_where_a_new_start_cannot_be_seen_nothing_is_said_of_counters(reactor, server):
    """The page that tells it failed: it may have been started anew, and count."""
    server.pages = {**LLAMA, "/metrics": (501, b"{}")}
    asking = poller(reactor, server.url)
    look(reactor, asking)
    server.pages["/props"] = (500, b"")
    assert look(reactor, asking).metrics is MetricsPage.UNKNOWN
    server.pages["/props"] = LLAMA["/props"]
    assert look(reactor, asking).metrics is MetricsPage.OFF


def test_a_llama_server_that_does_not_tell_its_start_is_asked_for_its_counters_each_time(
    reactor, server
):
    """It may be back within a second, with --metrics."""
    props = (200, b'{"default_generation_settings":{"n_ctx":2048}}')
    server.pages = {**LLAMA, "/metrics": (501, b"{}"), "/props": props}
    asking = poller(reactor, server.url)
    look(reactor, asking)
    server.pages["/metrics"] = LLAMA["/metrics"]
    assert look(reactor, asking).metrics is MetricsPage.ON


def test_another_model_is_another_server(reactor, server):
    """It shows when the list of models is asked for again; then all is asked for."""
    server.pages = {"/v1/models": LLAMA["/v1/models"]}
    asking = poller(reactor, server.url)
    for _ in range(30):
        look(reactor, asking)
    asked(server)
    server.pages = {**LLAMA, "/v1/models": (200, b'{"data":[{"id":"other"}]}')}
    seen = look(reactor, asking)
    assert (seen.served, seen.metrics) == ("other", MetricsPage.ON)


@pytest.mark.parametrize("page", [b"", b"{", b"[" * 10_000, b"\xff\xfe", b"null", b"x" * 600_000])
def test_odd_pages_do_not_matter(reactor, server, page):
    server.pages = dict.fromkeys(LLAMA, (200, page))
    seen = look(reactor, poller(reactor, server.url))
    assert seen.state is UpstreamState.UP
    assert seen.figures is None


def test_it_looks_at_once_and_then_every_interval(reactor, server):
    clock = Clock()
    seen = []
    polling = poller(reactor, server.url, seen.append, clock)
    polling.startService()
    turn_until(reactor, lambda: len(seen) == 1)
    clock.advance(9.0)
    reactor.iterate(0.05)
    assert len(seen) == 1
    clock.advance(1.0)
    turn_until(reactor, lambda: len(seen) == 2)
    assert polling.last is seen[-1]
    polling.stopService()
    clock.advance(100.0)
    reactor.iterate(0.05)
    assert len(seen) == 2
    assert not clock.getDelayedCalls()


def test_another_upstream_is_looked_at_from_the_next_look_on(reactor, server):
    """The configuration may be read again while it runs."""
    polling = poller(reactor, f"http://127.0.0.1:{free_port()}")
    seen = look(reactor, polling)
    assert (seen.state, seen.metrics, seen.server) == (
        UpstreamState.DOWN,
        MetricsPage.UNKNOWN,
        None,
    )
    polling.asker = poller(reactor, server.url).asker
    assert look(reactor, polling).url == server.url


def test_a_server_that_says_nothing_is_given_up(reactor):
    """Page by page: what it does tell is taken."""

    class Silent(Server):
        def answer(self, peer, received):
            if b" /metrics " not in received.line:
                super().answer(peer, received)
            else:
                peer.wait_closed()

    server = Silent(LLAMA)
    clock = Clock()
    asking = poller(reactor, server.url, clock=clock)
    found = []
    Deferred.fromCoroutine(asking.look()).addBoth(found.append)

    def given_up():
        if server.asked:
            clock.advance(0.1)
        return found

    turn_until(reactor, given_up)
    assert found[0].metrics is MetricsPage.UNKNOWN
    assert found[0].served == "qwen"
    server.close()


def test_stopping_breaks_off_a_look(reactor, server):
    clock = Clock()
    seen = []
    polling = poller(reactor, server.url, seen.append, clock)
    polling.startService()
    turn_until(reactor, lambda: server.asked)
    assert clock.getDelayedCalls()
    polling.stopService()
    assert not clock.getDelayedCalls()
    for _ in range(20):
        reactor.iterate(0.01)
    assert not seen


def test_a_look_that_cannot_be_delivered_does_not_end_the_polling(reactor, server):
    clock = Clock()
    seen = []

    def deliver(look):
        seen.append(json.dumps(look.served))
        raise ZeroDivisionError

    polling = poller(reactor, server.url, deliver, clock)
    polling.startService()
    turn_until(reactor, lambda: len(seen) == 1)
    clock.advance(10.0)
    turn_until(reactor, lambda: len(seen) == 2)
    polling.stopService()
