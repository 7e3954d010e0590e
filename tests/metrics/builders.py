"""Metrics and what they say, for tests."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from cacheproxy.core.rules.failures import Failures
from cacheproxy.metrics.snapshot import Now
from cacheproxy.web.metrics import MetricsPage

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Series:
    """Each series by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(series: Series, name: str, /, **labels: str) -> float | None:
    """The sum of the series that have these labels, None if there are none."""
    found = [
        value
        for (found, given), value in series.items()
        if found == name and labels.items() <= dict(given).items()
    ]
    return sum(found) if found else None


def page_of(metrics, now=None, rules=()):
    """A page that nobody asks by HTTP."""
    return MetricsPage(metrics, now or Now("1.0", Failures(), lambda: 0.0), rules, None)


def shown(metrics, now=None, rules=(), channels=()) -> Series:
    """What the page says."""
    page = page_of(metrics, now, rules)
    page.refresh(channels)
    return parsed(page.content().body.decode())
