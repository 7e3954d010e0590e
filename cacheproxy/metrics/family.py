"""A row of the table as a family of prometheus-client."""

from __future__ import annotations

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from cacheproxy.metrics.table import Kind, Row

_MADE = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
}


def family(row: Row) -> Metric:
    """Return an empty family for ``row``, to be filled by ``add_metric`` while it is collected."""
    family: Metric = _MADE[row.kind](row.name, row.says, labels=row.labels)
    return family
