"""What need not be asked of a server again, and when all of it is."""

from __future__ import annotations

import pytest

from cacheproxy.core.servers.looking import KnownPages, lasting
from cacheproxy.core.servers.profile import ServerFacts
from cacheproxy.core.servers.status import HEALTH, METRICS, Look, MetricsPage, UpstreamState

MODELS = {"data": [{"id": "m"}]}


def look(**more):
    fields = {
        "state": UpstreamState.UP,
        "metrics": MetricsPage.OFF,
        "server": ServerFacts("mlx-lm"),
        "served": "m",
    }
    return Look("http://localhost", 0.0, 0.0, **(fields | more))


@pytest.fixture
def known():
    """Of a server with a page of health, a list of models, and nothing else."""
    known = KnownPages()
    assert known.begin() == {}
    known.take(HEALTH, 200, None)
    known.take(METRICS, 404, None)
    known.take("/v1/models", 200, MODELS)
    assert known.settle(look()) == (look(), False)
    return known


def test_what_is_not_there_and_what_stays_is_not_asked_for(known):
    said = {METRICS: (404, None), "/v1/models": (200, MODELS)}
    assert known.begin() == said
    assert known.begin() == said


def test_what_stays_is_asked_for_every_thirtieth_time(known):
    """What is not there is not."""
    asked = [number for number in range(2, 70) if "/v1/models" not in known.begin()]
    assert asked[0] == 31
    known.take("/v1/models", 200, MODELS)
    assert known.begin().keys() == {METRICS, "/v1/models"}


@pytest.mark.parametrize("status", [200, 302, 429, 500, 503])
def test_what_may_be_other_with_the_next_look_is_not_kept(status):
    known = KnownPages()
    known.take(METRICS, status, None)
    assert known.begin() == {}


@pytest.mark.parametrize("lasting", lasting())
def test_something_is_always_asked_for(known, lasting):
    """Where there is no page of health, the cheapest page that is there; else that of health."""
    known.take(HEALTH, 404, None)
    known.take("/api/version", 404, None)
    known.take("/v1/models", 404, None)
    assert HEALTH not in known.begin()
    known.take(lasting, 200, {})
    assert HEALTH in known.begin()
    assert lasting not in known.begin()


@pytest.mark.parametrize("state", [UpstreamState.DOWN, UpstreamState.LOADING])
def test_of_a_server_that_was_away_nothing_is_known(known, state):
    assert known.settle(look(state=state)) == (look(state=state), False)
    assert known.begin() == {}


@pytest.mark.parametrize(
    "other",
    [{"served": "n"}, {"server": ServerFacts("Ollama")}, {"server": ServerFacts("mlx-lm", "2")}],
)
def test_of_another_server_all_is_asked_for_at_once(other):
    known = KnownPages()
    known.take(METRICS, 404, None)
    known.settle(look(server=ServerFacts("mlx-lm", "1")))
    assert known.settle(look(**other))[1]
    assert known.begin() == {}


@pytest.mark.parametrize(
    ("before", "after"), [(("a", ""), ("b", "")), (("", "BaseHTTP/0.6"), ("", "llama.cpp"))]
)
def test_so_it_is_of_one_that_was_started_anew_or_calls_itself_otherwise(known, before, after):
    """What is behind a port may be another within a second; what is not told has not changed."""
    for start, software in (before, ("", "")):
        assert not known.settle(look(start=start or None), software)[1]
    assert known.settle(look(start=after[0] or None), after[1])[1]
    assert known.begin() == {}


def test_where_its_start_is_not_told_any_more_its_counters_are_unknown(known):
    """They may be there now."""
    known.settle(look(start="a"))
    assert known.settle(look())[0].metrics is MetricsPage.UNKNOWN
    assert known.settle(look(start="a"))[0].metrics is MetricsPage.OFF


def test_a_llama_server_that_never_tells_it_is_asked_for_its_counters():
    known = KnownPages()
    known.take(METRICS, 501, None)
    known.settle(look(server=ServerFacts("llama-server")))
    assert METRICS not in known.begin()
    known.settle(look(server=ServerFacts("llama-server"), start="a"))
    assert METRICS in known.begin()
