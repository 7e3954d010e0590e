"""What has been counted, as a collector of prometheus-client."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from cacheproxy.metrics.family import family
from cacheproxy.metrics.series import Counter, Histogram
from cacheproxy.metrics.table import Row


class Counted:
    """The families, as of the last ``refresh``; a collector for a registry.

    One thread counts and refreshes, without a lock; any may collect meanwhile.
    """

    def __init__(self) -> None:
        self._series: list[Counter | Histogram] = []
        self._copies: tuple[Counter | Histogram, ...] = ()

    def counter(self, row: Row) -> Counter:
        """Return a new counter, shown from now on."""
        self._series.append(made := Counter(row))
        return made

    def histogram(self, row: Row) -> Histogram:
        """Return a new histogram, shown from now on."""
        self._series.append(made := Histogram(row))
        return made

    def describe(self) -> Iterator[Metric]:
        """Yield empty families, by which a registry knows the names."""
        for each in self._series:
            yield family(each.row)

    def refresh(self) -> None:
        """Copy what has been counted."""
        self._copies = tuple(each.copied() for each in self._series)

    def collect(self) -> Iterator[Metric]:
        """Yield what had been counted by the last ``refresh``."""
        for each in self._copies:
            yield each.family()
