"""All of it together: what a proxy hands over, and what it asks for."""

import threading

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.kinds.status import Look, MetricsPage, Sample, ServerFigures, UpstreamState
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.totals.file import NAME
from cacheproxy.totals.lists import requests
from cacheproxy.totals.totals import Totals
from cacheproxy.totals.windows import lifetime, overview
from tests.observe.exchanges import body, exchange
from tests.proxy.harness import eventually
from tests.turning import TurningReactor

from .builders import MS, NOW

DAY = 86_400


@pytest.fixture
def reactor():
    return TurningReactor()


@pytest.fixture
def totals(reactor, tmp_path):
    totals = Totals(reactor, tmp_path / "state", lambda: NOW)
    totals.check()
    yield totals
    totals.close()


def ask(totals, reactor, question, *arguments):
    found = []
    totals.ask(question, *arguments).addBoth(found.append)
    reactor.turn_until(lambda: found)
    return found[0]


def finished(totals, *exchanges):
    plugins = Plugins()
    plugins.register(totals, "totals")
    plugins.finished(exchanges)


def test_a_finished_exchange_is_recorded(totals, reactor):
    """As an observer like others; what is asked next knows of it."""
    finished(totals, exchange(body("x"), usage=Usage(100, 80, 5), wall=NOW))
    (found,) = ask(totals, reactor, requests)["requests"]
    assert (found["prompt"], found["reused"], found["model"]) == (100, 80, None)
    assert ask(totals, reactor, overview, "15m", totals.now)["sums"]["requests"] == 1
    assert totals.now == MS


@pytest.mark.parametrize("state", UpstreamState)
def test_a_look_tells_what_the_upstream_serves(totals, reactor, state):
    """And nothing is counted of it: its counters tell of what others asked it."""
    sent = exchange(body("x"), usage=Usage(100, 80, 5), wall=NOW)
    sample = Sample(ServerFigures(evaluated=7000.0, reused=9000.0), running=0, waiting=0)
    for seen, served in ((UpstreamState.UP, "gemma"), (state, "qwen")):
        totals.looked(Look(sent.upstream, NOW, 0.0, seen, MetricsPage.ON, sample, served=served))
    finished(totals, sent)
    (found,) = ask(totals, reactor, requests)["requests"]
    assert found["model"] == ("qwen" if state is UpstreamState.UP else "gemma")
    found = ask(totals, reactor, lifetime)
    assert (found["requests"], found["prompt"], found["reused"]) == (1, 100, 80)
    assert found["since"] == NOW


def test_the_housekeeping_deletes_what_is_old(totals, reactor):
    totals.start()
    finished(totals, exchange(body("old"), wall=NOW - 40 * DAY), exchange(body("x"), wall=NOW))
    assert len(ask(totals, reactor, requests)["requests"]) == 2
    reactor.advance(60)
    assert len(ask(totals, reactor, requests)["requests"]) == 1


def test_a_clock_a_year_ahead_for_hours_costs_no_detail(reactor, tmp_path):
    """Nor one that goes back, by however much; a month that passes does."""
    wall = [NOW]
    totals = Totals(reactor, tmp_path / "state", lambda: wall[0])
    totals.start()

    def rows():
        return len(ask(totals, reactor, requests)["requests"])

    def pass_by(hours):
        for _ in range(hours):
            reactor.pump([60] * 60)
            wall[0] += 3600

    finished(totals, exchange(body("x"), wall=NOW))
    for jump in (365 * DAY, -365 * DAY, -DAY / 24, -DAY, -NOW, NOW + DAY + DAY / 24):
        wall[0] += jump
        pass_by(3)
        assert rows() == 1
        assert ask(totals, reactor, lifetime)["since"] <= NOW
    assert wall[0] == NOW + 18 * 3600
    wall[0] += 40 * DAY
    pass_by(8)
    assert rows() == 1
    pass_by(24)
    assert rows() == 0
    assert ask(totals, reactor, lifetime)["requests"] == 1
    totals.close()


def test_a_file_that_is_removed_is_noticed_without_a_request(totals, reactor, tmp_path):
    """Within a minute."""
    totals.start()
    finished(totals, exchange(body("x"), wall=NOW))
    assert len(ask(totals, reactor, requests)["requests"]) == 1
    file = tmp_path / "state" / NAME
    file.unlink()
    reactor.advance(60)
    eventually(file.exists)


def test_closing_ends_the_thread_and_the_housekeeping(totals, reactor):
    totals.start()
    before = threading.active_count()
    totals.close()
    assert threading.active_count() == before - 1
    reactor.turn()
    assert not reactor.getDelayedCalls()
