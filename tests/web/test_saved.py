"""The time saved is the same figure wherever it is shown."""

import json

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.metrics import Metrics
from cacheproxy.observe.pricing import Pricing
from cacheproxy.record.exchange import Outcome
from tests.metrics.builders import shown as series
from tests.metrics.builders import value
from tests.observe.exchanges import body, exchange
from tests.observe.test_pricing import ADDED, SPARED

from .sample import NOW, Shown
from .test_dashboard import result


@pytest.fixture
def finished():
    """A dashboard and the metrics, which have seen turns of odd speeds; some of them failed."""
    shown, metrics = Shown(), Metrics()
    shown.observers.append(metrics)
    pricing = Pricing(lambda priced: shown.finish(*priced))
    pricing([exchange(body("x"), number=0, wall=NOW, usage=Usage(3000, 0, 5, 1.7))])
    for number in range(1, 120):
        status = 400 if number % 20 == 0 else 200
        outcome = Outcome.UPSTREAM_FAILED if number % 30 == 0 else Outcome.COMPLETE
        verdict = ADDED if number % 7 == 0 else SPARED
        reused = 900 if verdict is SPARED else 0
        pricing(
            [
                exchange(
                    body("x"),
                    number=number,
                    wall=NOW - number,
                    session=f"s{number % 9}",
                    usage=Usage(1000 + number, reused, 5, 0.000_7 * number if number % 3 else None),
                    verdict=verdict,
                    status=status,
                    outcome=outcome,
                )
            ]
        )
    return shown, metrics


def test_every_place_says_the_same(finished):
    """Head, windows, lifetime, conversations and metrics, to the millisecond."""
    shown, metrics = finished
    data = result(shown.dashboard.data({"window": "15m"}))
    seconds = data["headline"]["due"]["seconds"]
    assert seconds > 1
    for window in ("1h", "24h", "30d"):
        other = result(shown.dashboard.data({"window": window}))
        assert other["headline"]["due"]["seconds"] == pytest.approx(seconds, abs=1e-9)
    assert data["lifetime"]["spared_seconds"] == pytest.approx(seconds, abs=1e-9)
    listed = json.loads(result(shown.dashboard.conversations({"window": "15m"})).body)
    saved = sum(each["saved_seconds"] for each in listed["conversations"])
    assert saved == pytest.approx(seconds, abs=1e-9)
    page = series(metrics)
    spared, added = (
        value(page, "cacheproxy_rule_seconds_total", effect=effect)
        for effect in ("spared", "added")
    )
    assert spared - added == pytest.approx(seconds, abs=1e-9)
    json.dumps(data)
