"""Figures by their label values, in plain dicts, shown as prometheus-client shows its own.

Its own counters and histograms, each with a lock, made most of the calls that counting took.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from itertools import accumulate
from typing import Any

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.record.metrics import UNKNOWN, MetricRow

Values = tuple[str, ...]
"""A value for each label of the row, in its order."""
OTHER = "other"
"""Stands for all values beyond the most there may be."""
_LONGEST = 64
_LOOKED_AT = 256
"""Characters that are looked through for credentials; all that is kept lies well within."""


_FAMILIES = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def family_of(row: MetricRow) -> Metric:
    """Return an empty family of prometheus-client, to be filled by ``add_metric``."""
    family: Metric = _FAMILIES[row.kind](row.name, row.says, labels=row.labels)
    return family


class Labels:
    """The values of one label: the first ``most`` are kept, the rest are ``other``.

    Others may have chosen them, and each is a time series of its own for as long as the proxy and
    its Prometheus live.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def of(self, text: str, carried: Callable[[], Collection[bytes]] = tuple) -> str:
        """Return the value for ``text``; ``carried`` returns credentials that may stand in it."""
        text = text[:_LOOKED_AT]
        value = self._known.get(text)
        if value is None:
            if len(self._known) >= self._most:
                return OTHER
            value = self._known[text] = clean(text, carried())
        return value


def clean(text: str, known: Collection[bytes] = ()) -> str:
    """Return ``text`` as a label's value: printable, short, without credentials, not empty."""
    text = hide_text(text[:_LOOKED_AT], known)[:_LONGEST]
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")[:_LONGEST]
    return text.strip() or UNKNOWN


class Series(dict[Values, Any]):
    """All series of one row.

    A counter's is a number, never lowered: ``series[values] += 1``. A histogram's is a list, filled
    by ``observe``: how many amounts lie between each bound and the one before, and their sum.
    """

    def __init__(self, row: MetricRow, items: Iterable[tuple[Values, Any]] = ()) -> None:
        super().__init__(items)
        self.row = row

    def __missing__(self, values: Values) -> Any:
        if not self.row.buckets:
            return 0.0
        made = self[values] = [0.0] * (len(self.row.buckets) + 2)
        return made

    def observe(self, values: Values, amount: float) -> None:
        """Count ``amount`` in the first bucket whose bound is no less."""
        buckets = self[values]
        buckets[bisect_left(self.row.buckets, amount)] += 1
        buckets[-1] += amount

    def copied(self) -> Series:
        """Return what there is now, to stay as it is."""
        if not self.row.buckets:
            return Series(self.row, self.items())
        return Series(self.row, ((values, [*each]) for values, each in self.items()))

    def family(self) -> Metric:
        """Return it for the page: each bucket holds those below it, too."""
        made: Any = family_of(self.row)
        names = (*map(str, self.row.buckets), "+Inf")
        for values, figure in self.items():
            if self.row.buckets:
                counts = zip(names, accumulate(figure[:-1]), strict=True)
                made.add_metric(values, [*counts], figure[-1])
            else:
                made.add_metric(values, figure)
        return made  # type: ignore[no-any-return]
