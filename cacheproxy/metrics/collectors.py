"""The rows of the table as collectors of prometheus-client."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from cacheproxy.metrics.table import Kind, Row

_CREATED = "_created"


def counter(row: Row, registry: CollectorRegistry) -> Counter:
    """Return the counter of ``row``."""
    return Counter(row.name, row.says, row.labels, registry=registry)


def gauge(row: Row, registry: CollectorRegistry) -> Gauge:
    """Return the gauge of ``row``."""
    return Gauge(row.name, row.says, row.labels, registry=registry)


def histogram(row: Row, registry: CollectorRegistry) -> Histogram:
    """Return the histogram of ``row``."""
    return Histogram(row.name, row.says, row.labels, registry=registry, buckets=row.buckets)


def family(row: Row) -> Metric:
    """Return an empty family for ``row``, to be filled by ``add_metric`` while it is collected."""
    made = CounterMetricFamily if row.kind is Kind.COUNTER else GaugeMetricFamily
    family: Metric = made(row.name, row.says, labels=row.labels)
    return family


class WithoutCreated:
    """A registry as it is shown: without the moment each series began.

    prometheus-client can leave them out for the whole process only, which is not ours alone.
    They would double the page.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith(_CREATED)]
            yield metric
