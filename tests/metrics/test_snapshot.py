"""What is so at the moment of asking."""

from __future__ import annotations

import platform
from types import SimpleNamespace

import pytest

from cacheproxy.core.rules.fold import Failures
from cacheproxy.core.servers.status import Look, Slot, UpstreamState
from cacheproxy.metrics import MetricsSources
from tests.metrics.builders import families, shown, value

UP = "http://localhost:8080"


def said_of(look=None, failures=None, channels=(), moment=100.0):
    standing = MetricsSources(
        "1.2", failures or Failures(), lambda: moment, lambda: [look] if look else []
    )
    return shown(None, standing, channels=channels)


def test_what_runs():
    labels = {"version": "1.2", "python": platform.python_version()}
    assert value(said_of(), "cacheproxy_build_info", **labels) == 1


def test_connections_and_what_is_under_way_on_them():
    """The page that is being asked for does not count itself."""
    paths = (b"/v1/messages", b"/_cacheproxy/metrics", b"/v1/models")
    channels = [SimpleNamespace(requests=[SimpleNamespace(path=path)]) for path in paths]
    channels.append(SimpleNamespace(requests=[]))
    channels.append(SimpleNamespace(requests=[object()]))  # whose head has not come in full
    said = said_of(channels=channels)
    assert value(said, "cacheproxy_connections") == 5
    assert value(said, "cacheproxy_open_requests") == 3


@pytest.mark.parametrize("state", list(UpstreamState))
def test_the_upstream_as_it_was_seen_last(state):
    """Up, or not, and how long ago that was; nothing before the first look."""
    assert value(said_of(), "cacheproxy_upstream_up") is None
    said = said_of(Look(UP, 1.7e9, 90.0, state))
    assert value(said, "cacheproxy_upstream_up", upstream=UP) == (state is UpstreamState.UP)
    assert value(said, "cacheproxy_poll_age_seconds", upstream=UP) == 10.0
    assert value(said, "cacheproxy_upstream_slots") is None
    assert value(said, "cacheproxy_upstream_kv_used_ratio") is None


def test_slots_and_what_they_hold():
    slots = (Slot(0, 1000, 500, busy=True), Slot(1, 1000, 0, busy=False))
    said = said_of(Look(UP, 1.7e9, 90.0, UpstreamState.UP, slots=slots))
    assert value(said, "cacheproxy_upstream_slots", state="busy") == 1
    assert value(said, "cacheproxy_upstream_slots", state="idle") == 1
    assert value(said, "cacheproxy_upstream_kv_used_ratio") == 0.25


def test_failures_by_name_and_kind():
    failures = Failures()
    failures.of("stamp").failed += 2
    failures.of("stamp").timed_out += 1
    failures.of("stamp").left_out = True
    failures.of("plugin: cacheproxy_exchange_finished").dropped += 7
    said = said_of(failures=failures)
    assert value(said, "cacheproxy_failures_total", name="stamp", kind="failed") == 2
    assert value(said, "cacheproxy_failures_total", name="stamp", kind="timed_out") == 1
    assert value(said, "cacheproxy_failures_total", kind="dropped") == 7
    assert value(said, "cacheproxy_left_out", name="stamp") == 1
    assert value(said, "cacheproxy_left_out") == 1


def test_names_that_are_alike_when_cut_are_one():
    """A series that stood twice on the page would make Prometheus refuse all of it."""
    failures = Failures()
    for end in "ab":
        failures.of("x" * 200 + end).failed += 1
        failures.of("x" * 200 + end).left_out = True
    (left_out,) = (
        family
        for family in families(None, MetricsSources("1", failures, lambda: 0.0)).collect()
        if family.name == "cacheproxy_left_out"
    )
    assert len(left_out.samples) == 1
    said = said_of(failures=failures)
    assert value(said, "cacheproxy_failures_total", kind="failed") == 2
    assert value(said, "cacheproxy_left_out") == 1


def test_thousands_of_names_are_not_shown():
    """As many as there may be rules in a configuration that nobody reads any more."""
    failures = Failures()
    for number in range(3000):
        failures.of(f"rule-{number}\n").failed += 1
    said = said_of(failures=failures)
    assert value(said, "cacheproxy_failures_total", kind="failed") == 200
