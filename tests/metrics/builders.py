"""Metrics and what they say, for tests."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from cacheproxy.core.rules.fold import Failures
from cacheproxy.metrics import Metrics, MetricsSources
from cacheproxy.web.monitoring import Families, content

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


def families(metrics=None, standing=None, rules=(), channels=()) -> Families:
    """What the page is made of, now."""
    standing = standing or MetricsSources("1.0", Failures(), lambda: 0.0)
    return Families(standing.families(channels), (metrics or Metrics()).snapshot(rules))


def shown(*arguments, **more) -> Series:
    """What the page says now."""
    return parsed(content(families(*arguments, **more)).body.decode())
