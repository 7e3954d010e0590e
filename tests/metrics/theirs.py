"""prometheus-client's own counters and histograms, to hold ours against."""

from __future__ import annotations

import prometheus_client
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from cacheproxy.record.metrics import COUNTED


class Theirs:
    """All that is counted, in a registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._of = {}
        for row in COUNTED:
            arguments = (row.name, row.help, row.labels)
            self._of[row.name] = (
                prometheus_client.Histogram(*arguments, registry=self.registry, buckets=row.buckets)
                if row.buckets
                else prometheus_client.Counter(*arguments, registry=self.registry)
            )

    def add(self, row, values, amount) -> None:
        """Count it."""
        series = self._of[row.name].labels(*values)
        (series.observe if row.buckets else series.inc)(amount)

    def collect(self):
        """The families, without the moment each series began, which is not shown."""
        for family in self.registry.collect():
            family.samples = [each for each in family.samples if not each.name.endswith("_created")]
            yield family


def pages(collector) -> tuple[bytes, bytes]:
    """What it comes to in both formats."""
    return generate_latest(collector), openmetrics(collector)
