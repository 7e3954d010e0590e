"""What each upstream did for each route."""

from __future__ import annotations

import pytest

from cacheproxy.totals.groups import routed

from .builders import URL, keep, record, store_in

OTHER = "http://other:1"


def test_sums_by_upstream_and_route(tmp_path):
    """Over all restarts; where there is one upstream, there are none."""
    store = store_in(tmp_path)
    keep(store, record())
    assert routed(store) == []
    keep(
        store,
        record(route="work", price=0.5),
        record(route="work", price=0.25),
        record(route="", upstream=OTHER, reused=None, evaluated=None),
    )
    first, second = routed(store)
    assert first == {
        "upstream": URL,
        "route": "work",
        "requests": 2,
        "prompt": 2000,
        "reused": 1800,
        "price": pytest.approx(0.75),
    }
    assert (second["upstream"], second["route"], second["reused"]) == (OTHER, "", 0)
    store.connection.close()
    assert routed(store_in(tmp_path)) == [first, second]
