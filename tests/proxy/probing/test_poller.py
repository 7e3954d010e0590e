"""Looks at an upstream: which pages are asked for, when, and what they show."""

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused

from cacheproxy.core.kinds.status import MetricsPage, UpstreamState
from cacheproxy.proxy.probing.asker import PAGE_SECONDS, Asker
from cacheproxy.proxy.probing.poller import Poller
from tests.proxy.inmemory import Server

ON, OFF, UNKNOWN = MetricsPage.ON, MetricsPage.OFF, MetricsPage.UNKNOWN
UP, DOWN, LOADING = UpstreamState.UP, UpstreamState.DOWN, UpstreamState.LOADING
PROPS = b'{"default_generation_settings":{"n_ctx":2048},"total_slots":1,"media_marker":"<m%d>"}'
MODELS = {"/v1/models": (200, b'{"data":[{"id":"qwen"}]}')}
LLAMA = {
    "/health": (200, b'{"status":"ok"}'),
    "/metrics": (200, b"llamacpp:prompt_tokens_total 385\nllamacpp:tokens_predicted_total 33\n"),
    "/slots": (200, b'[{"id":0,"n_ctx":2048,"is_processing":true,"id_task":7}]'),
    "/props": (200, PROPS % 1),
} | MODELS
NO_METRICS = {"/metrics": (501, b"{}")}
INTERVAL = 10.0


class Looks:
    """Looks at a server with ``pages``, as somebody gets them who may ``fail``."""

    def __init__(self, pages=LLAMA):
        self.server, self.seen, self.fail = Server(pages), [], None
        self.clock = self.server.clock
        asker = Asker(self.clock, self.server, lambda: 1e9)
        self.poller = Poller(asker, INTERVAL, self.deliver)

    def deliver(self, look):
        self.seen.append(look)
        if self.fail is not None:
            raise self.fail

    def begin(self):
        found = []
        Deferred.fromCoroutine(self.poller.look()).addBoth(found.append)
        return found

    def __call__(self):
        """What a look shows at once."""
        (found,) = self.begin()
        return found

    def metrics(self):
        return self().metrics


def test_a_look_at_llama_server():
    looks = Looks()
    seen = looks()
    assert (seen.state, seen.metrics, seen.served) == (UP, ON, "qwen")
    assert (seen.figures.evaluated, seen.tasks, seen.slots[0].busy) == (385, 7, True)
    assert seen.server.kind == "llama-server"
    assert (seen.url, seen.wall) == (looks.server.url.text, 1e9)
    assert looks.server.asked() == [*LLAMA, "/api/version"]


@pytest.mark.parametrize("status", [401, 403, 404, 405, 501])
def test_pages_that_are_not_there_are_not_asked_for_again(status):
    """Nor is the list of models, which stays: it is enough that the server is there."""
    absent = dict.fromkeys((*LLAMA, "/api/version"), (status, b"{}"))
    looks = Looks(absent | MODELS | {"/health": LLAMA["/health"]})
    for asked in (6 * [""], *29 * [["/health"]], ["/health", "/v1/models"]):
        seen = looks()
        assert (seen.state, seen.metrics, seen.served) == (UP, OFF, "qwen")
        paths = looks.server.asked()
        assert paths == asked or len(paths) == len(asked) == 6


def test_after_the_server_was_away_all_is_asked_for():
    """What comes back may be another."""
    looks = Looks(MODELS)
    looks()
    loading = (503, b'{"error":{"code":503,"message":"Loading model"}}')
    looks.server.pages = dict.fromkeys(LLAMA, loading)
    seen = looks()
    assert (seen.state, seen.metrics) == (LOADING, UNKNOWN)
    looks.server.pages = LLAMA
    looks.server.asked()
    assert looks.metrics() is ON
    assert len(looks.server.asked()) == 6


def test_a_server_without_a_page_of_health_is_seen_to_go():
    """Of Ollama its version is asked for, which costs it least."""
    looks = Looks(MODELS | {"/api/version": (200, b'{"version":"0.33.3"}')})
    looks()
    looks.server.asked()
    assert looks().server.kind == "Ollama"
    assert looks.server.asked() == ["/api/version"]
    looks.server.pages = dict.fromkeys(looks.server.pages, Refused())
    seen = looks()
    assert (seen.state, seen.metrics, seen.server) == (DOWN, UNKNOWN, None)


def test_counters_of_a_server_that_is_started_anew_are_read_at_once():
    """From when it counts must be known exactly."""
    looks = Looks(LLAMA | NO_METRICS)
    assert looks.metrics() is OFF
    looks.server.asked()
    assert looks.metrics() is OFF
    assert looks.server.asked() == ["/health", "/slots", "/props"]
    looks.server.pages = LLAMA | {"/props": (200, PROPS % 2)}
    seen = looks()
    assert (seen.metrics, seen.figures.evaluated) == (ON, 385)
    assert looks.server.asked().count("/metrics") == 1


@pytest.mark.parametrize(
    ("props", "metrics", "said"),
    [
        # The page that tells it failed: it may have been started anew, and count.
        ((500, b""), NO_METRICS["/metrics"], [UNKNOWN, OFF]),
        # It does not tell its start: it may be back within a second, with --metrics.
        ((200, b'{"default_generation_settings":{"n_ctx":2048}}'), LLAMA["/metrics"], [ON, ON]),
    ],
    ids=["failed", "without a start"],
)
def test_where_a_new_start_cannot_be_seen(props, metrics, said):
    """Nothing is said of counters, or they are asked for each time."""
    looks = Looks(LLAMA | NO_METRICS | ({"/props": props} if props[0] == 200 else {}))
    assert looks.metrics() is OFF
    looks.server.pages |= {"/props": props, "/metrics": metrics}
    found = [looks.metrics()]
    looks.server.pages["/props"] = LLAMA["/props"]
    assert [*found, looks.metrics()] == said


def test_another_model_is_another_server():
    """It shows when the list of models is asked for again; then all is asked for."""
    looks = Looks(MODELS)
    for _ in range(30):
        looks()
    looks.server.pages = LLAMA | {"/v1/models": (200, b'{"data":[{"id":"other"}]}')}
    seen = looks()
    assert (seen.served, seen.metrics) == ("other", ON)


@pytest.mark.parametrize(
    "page", [b"", b"{", b"[" * 10_000, b"\xff\xfe", b"null", b"x" * 600_000], ids=len
)
def test_odd_pages_do_not_matter(page):
    seen = Looks(dict.fromkeys(LLAMA, (200, page)))()
    assert (seen.state, seen.figures) == (UP, None)


def test_it_looks_at_once_and_then_every_interval():
    looks = Looks()
    looks.poller.startService()
    for seconds, count in ((0.0, 1), (9.0, 1), (1.0, 2)):
        looks.clock.advance(seconds)
        assert len(looks.seen) == count
        assert looks.poller.last is looks.seen[-1]
    looks.poller.stopService()
    looks.clock.advance(100.0)
    assert len(looks.seen) == 2
    assert not looks.clock.getDelayedCalls()


def test_another_upstream_is_looked_at_from_the_next_look_on():
    """The configuration may be read again while it runs."""
    looks, other = Looks(dict.fromkeys(LLAMA, Refused())), Looks()
    assert looks().state is DOWN
    looks.poller.asker = other.poller.asker
    assert looks().state is UP


def test_a_server_that_says_nothing_is_given_up():
    """Page by page: what it does tell is taken. Stopping breaks a look off."""
    looks = Looks(LLAMA | {"/metrics": None})
    found = looks.begin()
    looks.clock.advance(PAGE_SECONDS - 0.1)
    assert not found
    looks.clock.advance(0.1)
    assert (found[0].metrics, found[0].served) == (UNKNOWN, "qwen")
    looks.poller.startService()
    assert looks.clock.getDelayedCalls()
    looks.poller.stopService()
    assert not looks.clock.getDelayedCalls()
    assert not looks.seen


def test_a_look_that_cannot_be_delivered_does_not_end_the_polling(log):
    looks = Looks()
    looks.fail = ZeroDivisionError()
    looks.poller.startService()
    looks.clock.advance(INTERVAL)
    looks.poller.stopService()
    assert len(looks.seen) == 2
    assert log == ["a look at the upstream failed"] * 2
