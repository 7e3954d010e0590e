"""The observer that counts every finished exchange: figures and names, nothing of its content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from cacheproxy import hookimpl, quick
from cacheproxy.core.privacy.redact import carried
from cacheproxy.metrics.series import Labels, Series
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.metrics import COUNTED, amounts_of, labels_of

MOST = {"upstream": 32, "route": 32, "client": 24, "model": 24, "rule": 200}
"""How many values these labels may have: clients choose some, the configuration the others."""


class Metrics:
    """Counts what there is to count of each exchange, in ``series``."""

    def __init__(self) -> None:
        self.series = {row: Series(row) for row in COUNTED}
        self._labels = {name: Labels(most) for name, most in MOST.items()}

    def snapshot(self, rules: Iterable[str]) -> list[Series]:
        """Return what has been counted by now; ``rules`` that have not fired are there with 0."""
        by_rule = [each for row, each in self.series.items() if row.labels == ("rule",)]
        for rule in rules:
            for each in by_rule:
                each[self._labels["rule"].of(rule),] += 0
        return [each.copied() for each in self.series.values()]

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Count them."""
        for exchange in exchanges:
            self._count(exchange)

    def _count(self, exchange: Exchange) -> None:
        labels, amounts = labels_of(exchange), amounts_of(exchange)
        bounded = self._labels
        known = partial(carried, exchange.received.headers, exchange.received.target)
        for name in labels.keys() & bounded:
            labels[name] = bounded[name].of(labels[name], known)
        for row, series in self.series.items():
            values: Any = tuple(map(labels.get, row.labels))
            amount = amounts[row.name.removeprefix("cacheproxy_")]
            if amount is None or None in values[:-1]:
                continue
            if isinstance(amount, dict):
                names = bounded.get(row.labels[-1])
                for last, each in amount.items():
                    series[*values[:-1], last if names is None else names.of(last)] += each
            elif values[-1] is None:
                continue
            elif row.buckets:
                series.observe(values, amount)
            else:
                series[values] += amount
