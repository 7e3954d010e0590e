"""The metrics for Prometheus: counters of finished exchanges, and gauges read at each scrape.

They have figures and names, no content. A series is a plain dict by label values: the counters of
prometheus-client, each with a lock, took most of the time that counting an exchange cost.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import accumulate
from operator import add as plus
from typing import Any

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from cacheproxy import hookimpl, quick
from cacheproxy.core.kinds.status import Look, UpstreamState
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried
from cacheproxy.core.rules.fold import Failures, one_line
from cacheproxy.record import metrics as table
from cacheproxy.record.columns import IS_SOME
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.metrics import (
    BY_AMOUNT,
    COUNTED,
    LONGEST,
    UNKNOWN,
    Amounts,
    MetricRow,
    amounts_of,
    figures_of,
    kind_of,
    labels_of,
    left_out_of,
)

MOST = {"upstream": 32, "route": 32, "client": 24, "model": 24, "rule": 200}
"""Values of these labels, at most: clients choose some, the configuration the others."""
Values = tuple[str, ...]  #: values of a row's labels, in their order
OTHER = "other"  #: label value that stands for all those beyond ``MOST``
_LONGEST = 64
_MOST_WAITING = 256
"""Exchanges that are added together, if nobody reads the page before: that takes a millisecond."""
Counted = tuple[str, "Series", Values, "Labels | None"]
"""A metric's key, its series, the values of its labels and, if the amounts themselves give the
last label, the bound on that label's values."""
_FAMILIES = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}
_MOST_FAILURES = 200
_OWN = b"/_cacheproxy"


class Metrics:
    """The observer that counts exchanges in ``series``, one for each row of the metrics' table."""

    def __init__(self) -> None:
        self.series = {row: Series(row) for row in COUNTED}
        self._labels = {name: Labels(most) for name, most in MOST.items()}
        self._kinds: dict[tuple[Any, ...], list[Counted]] = {}
        self._kind: list[Counted] = []
        self._waiting: list[tuple[Any, ...]] = []  # of that kind

    def snapshot(self, rules: Iterable[str]) -> list[Series]:
        """Return a copy of all series, after adding 0 to those of ``rules`` not yet counted."""
        self._settle()
        by_rule = [each for row, each in self.series.items() if row.labels == ("rule",)]
        for rule in rules:
            for each in by_rule:
                each[self._labels["rule"].of(rule),] += 0
        return [each.copied() for each in self.series.values()]

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Count ``exchanges``: up to 256 of one kind wait until ``_settle`` adds them at once."""
        for exchange in exchanges:
            kind = kind_of(exchange)
            counted = self._kinds.get(kind)
            if counted is None:
                if len(self._kinds) >= 512:  # kinds of exchanges whose labels are cached, at most
                    self._kinds.clear()
                counted = self._kinds[kind] = self._counted(exchange)
            if counted is not self._kind or len(self._waiting) >= _MOST_WAITING:
                self._settle()
                self._kind = counted
            self._waiting.append(figures_of(exchange))

    def _settle(self) -> None:
        """Add to the series the amounts that wait, of exchanges of one kind."""
        if self._waiting:
            add(self._kind, amounts_of(self._waiting))
            self._waiting = []

    def _counted(self, exchange: Exchange) -> list[Counted]:
        """Return the series that count exchanges of the kind of ``exchange``, with label values."""
        labels, bounded, left_out = labels_of(exchange), self._labels, left_out_of(exchange)
        known = partial(carried, exchange.received.headers, exchange.received.target)
        for name in labels.keys() & bounded:
            labels[name] = bounded[name].of(labels[name], known)
        found: list[Counted] = []
        for row, series in self.series.items():
            values: Any = tuple(map(labels.get, row.labels))
            if None in values[:-1] or row.key in left_out:
                continue
            if values[-1] is not None:
                found.append((row.key, series, values, None))
            elif row.labels[-1] in BY_AMOUNT:
                found.append((row.key, series, values[:-1], bounded.get(row.labels[-1])))
        return found


def add(counted: Iterable[Counted], amounts: Mapping[str, Amounts]) -> None:
    """Add ``amounts``, by their metrics' keys, to the series in ``counted``."""
    for name, series, values, last in counted:
        found = amounts[name]
        if isinstance(found, dict):
            for value, given in found.items():
                if each := [*filter(IS_SOME, given)]:
                    label = value if last is None else last.known.get(value) or last.of(value)
                    series[*values, label] = reduce(plus, each, series[*values, label])
        elif not (each := [*filter(IS_SOME, found)]):
            continue
        elif buckets := series.buckets:
            figure = series[values]  # each counts in the first bucket whose bound is not below
            for number, count in Counter(map(partial(bisect_left, buckets), each)).items():
                figure[number] += count
            figure[-1] = reduce(plus, each, figure[-1])
        else:
            series[values] = reduce(plus, each, series[values])


def family_of(row: MetricRow, *values: tuple[list[str], float]) -> Metric:
    """Return prometheus-client's family for ``row``, with ``values``: labels and numbers."""
    made: Any = _FAMILIES[row.kind](row.name, row.help, labels=row.labels)
    for labels, value in values:
        made.add_metric(labels, float(value))
    return made  # type: ignore[no-any-return]


class Labels:
    """The values of one label: the first ``most`` as they are, all others as ``other``.

    Clients may choose them, and each is a time series of its own for as long as the proxy and its
    Prometheus live. ``known``: the label values by the texts they stand for.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.known: dict[str, str] = {}

    def of(self, text: str, carried: Callable[[], Collection[bytes]] = tuple) -> str:
        """Return the label for ``text``, stored if new; ``carried`` returns credentials to hide."""
        text = text[:LONGEST]
        value = self.known.get(text)
        if value is None:
            if len(self.known) >= self._most:
                return OTHER
            value = self.known[text] = clean(text, carried())
        return value


def clean(text: str, credentials: Collection[bytes] = ()) -> str:
    """Return ``text`` as a label value: printable, 1 to 64 characters, ``credentials`` hidden."""
    text = hide_text(text[:LONGEST], credentials)[:_LONGEST]
    return one_line(text, _LONGEST)[:_LONGEST].strip() or UNKNOWN


class Series(dict[Values, Any]):
    """All time series of one row, by the values of their labels.

    A counter's is a number, never lowered: ``series[values] += 1``. A histogram's is a list: the
    number of amounts in each bucket alone, and their sum as the last item.
    """

    def __init__(self, row: MetricRow, items: Iterable[tuple[Values, Any]] = ()) -> None:
        super().__init__(items)
        self.row = row
        self.buckets = row.buckets

    def __missing__(self, values: Values) -> Any:
        if not self.row.buckets:
            return 0.0
        made = self[values] = [0.0] * (len(self.row.buckets) + 2)
        return made

    def copied(self) -> Series:
        """Return a copy, which later counting does not change."""
        if not self.row.buckets:
            return Series(self.row, self.items())
        return Series(self.row, ((values, [*each]) for values, each in self.items()))

    def family(self) -> Metric:
        """Return prometheus-client's family for the page: its buckets are cumulative."""
        made: Any = family_of(self.row)
        names = (*map(str, self.row.buckets), "+Inf")
        for values, figure in self.items():
            if self.row.buckets:
                counts = zip(names, accumulate(figure[:-1]), strict=True)
                made.add_metric(values, [*counts], figure[-1])
            else:
                made.add_metric(values, figure)
        return made  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class MetricsSources:
    """Sources of the figures read at a scrape. All are called in the reactor's thread."""

    version: str  #: cacheproxy's version
    failures: Failures  #: failures of rules and plugins, by name
    seconds: Callable[[], float]  #: clock of the looks' moments
    looks: Callable[[], Sequence[Look]] = tuple  #: returns the latest look at each upstream
    warmed: Callable[[], Mapping[str, int]] = dict
    """Returns the prompt tokens evaluated to warm caches, by the upstreams' URLs."""

    def families(self, channels: Collection[Any]) -> list[Metric]:
        """Return the families of gauges; ``channels``: open ones, each with its ``requests``."""
        under_way = [request for channel in channels for request in channel.requests[:1]]
        others = sum(not getattr(request, "path", b"").startswith(_OWN) for request in under_way)
        return [
            *self._failures(),
            family_of(table.CONNECTIONS, ([], len(channels))),
            family_of(table.STREAMS, ([], others)),
            *(family_of(row, *values) for row, values in self._upstreams().items() if values),
            family_of(table.BUILD, ([self.version, platform.python_version()], 1)),
        ]

    def _failures(self) -> Iterator[Metric]:
        """Yield the families of failures of rules and plugins, and of those that were left out."""
        counts: dict[str, Counter[str]] = {}
        for name, count in list(self.failures.as_dict().items())[:_MOST_FAILURES]:
            counts.setdefault(clean(name), Counter()).update(count)  # long names can coincide
        kinds = ("failed", "timed_out", "dropped")
        each = (([name, kind], found[kind]) for name, found in counts.items() for kind in kinds)
        yield family_of(table.FAILURES, *each)
        yield family_of(
            table.LEFT_OUT, *(([name], found["left_out"] > 0) for name, found in counts.items())
        )

    def _upstreams(self) -> dict[MetricRow, list[tuple[list[str], float]]]:
        """Return the gauges of upstreams: each row's label values and figures."""
        now, looks = self.seconds(), [(clean(look.url), look) for look in self.looks()]
        busy = [(name, [slot.busy for slot in look.slots]) for name, look in looks]
        return {
            table.UP: [([name], look.state is UpstreamState.UP) for name, look in looks],
            table.POLL_AGE: [([name], max(0.0, now - look.moment)) for name, look in looks],
            table.SLOTS: [
                ([name, state], slots.count(state == "busy"))
                for name, slots in busy
                for state in ("busy", "idle")
                if slots
            ],
            table.KV_USED: [([name], look.kv) for name, look in looks if look.kv is not None],
            table.WARMED: [([clean(url)], count) for url, count in self.warmed().items()],
        }
