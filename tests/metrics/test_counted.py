"""What has been counted, as it is shown."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import DuplicateTimeseries

from cacheproxy.metrics import table
from cacheproxy.metrics.counted import Counted
from cacheproxy.metrics.counting import Metrics
from tests.metrics.builders import page_of, parsed, value
from tests.observe.exchanges import body, exchange


def test_every_row_is_shown_in_its_order():
    """Also before anything was counted."""
    counted = Metrics().counted
    counted.refresh()
    names = [row.name.removesuffix("_total") for row in table.COUNTED]
    assert [family.name for family in counted.collect()] == names
    assert [family.name for family in counted.describe()] == names


def test_a_page_in_the_making_does_not_change():
    """A thread makes it while exchanges are counted, and while the next one is asked for."""
    metrics = Metrics()
    page = page_of(metrics)
    metrics.cacheproxy_exchange_finished(exchange(body("a")))
    page.refresh()
    before = page.content().body
    making = metrics.counted.collect()
    first = [next(making) for _ in range(3)]
    metrics.cacheproxy_exchange_finished(exchange(body("a")))
    assert page.content().body == before
    page.refresh()
    families = {family.name: family for family in (*first, *making)}
    sums = families["cacheproxy_request_duration_seconds"].samples
    assert [each.value for each in sums if each.name.endswith("_count")] == [1]
    assert value(parsed(page.content().body.decode()), "cacheproxy_requests_total") == 2


def test_a_name_that_is_there_twice_is_refused():
    """Prometheus would refuse the page."""
    registry = CollectorRegistry()
    for refused in (False, True):
        counted = Counted()
        counted.counter(table.REQUESTS)
        if refused:
            with pytest.raises(DuplicateTimeseries):
                registry.register(counted)
        else:
            registry.register(counted)
