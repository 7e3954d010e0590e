"""What is so at the moment of asking: connections, the upstream, failures, what runs."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.metrics_core import Metric

from cacheproxy.core.rules.fold import Failures
from cacheproxy.core.servers.status import Look, UpstreamState
from cacheproxy.metrics.series import clean, family_of
from cacheproxy.record import metrics as table

_MOST_FAILURES = 200
_OWN = b"/_cacheproxy"


@dataclass(frozen=True, slots=True)
class MetricsSources:
    """Whom to ask. All are asked on the reactor's thread."""

    version: str  #: of cacheproxy
    failures: Failures  #: what was left out, by name
    seconds: Callable[[], float]  #: the clock that looks are timed by
    looks: Callable[[], Sequence[Look]] = tuple  #: returns the latest look at each upstream

    def families(self, channels: Collection[Any]) -> list[Metric]:
        """Ask all there are to ask; ``channels``: the open ones, each with its ``requests``."""
        return [
            *self._failures(),
            *self._connections(channels),
            *self._upstreams(),
            _of(table.BUILD, ([self.version, platform.python_version()], 1)),
        ]

    def _failures(self) -> Iterator[Metric]:
        counts: dict[str, Counter[str]] = {}
        for name, count in list(self.failures.as_dict().items())[:_MOST_FAILURES]:
            counts.setdefault(clean(name), Counter()).update(count)  # long names may become one
        kinds = ("failed", "timed_out", "dropped")
        each = (([name, kind], found[kind]) for name, found in counts.items() for kind in kinds)
        yield _of(table.FAILURES, *each)
        yield _of(
            table.LEFT_OUT, *(([name], found["left_out"] > 0) for name, found in counts.items())
        )

    def _connections(self, channels: Collection[Any]) -> Iterator[Metric]:
        under_way = [request for channel in channels for request in channel.requests[:1]]
        others = sum(not getattr(request, "path", b"").startswith(_OWN) for request in under_way)
        yield _of(table.CONNECTIONS, ([], len(channels)))
        yield _of(table.STREAMS, ([], others))

    def _upstreams(self) -> Iterator[Metric]:
        looks = [(clean(look.url), look) for look in self.looks()]
        if not looks:
            return
        now = self.seconds()
        yield _of(table.UP, *(([name], look.state is UpstreamState.UP) for name, look in looks))
        ages = (([name], max(0.0, now - look.moment)) for name, look in looks)
        yield _of(table.POLL_AGE, *ages)
        slots = []
        for name, look in looks:
            busy = sum(slot.busy for slot in look.slots)
            if look.slots:
                slots += [([name, "busy"], busy), ([name, "idle"], len(look.slots) - busy)]
        if slots:
            yield _of(table.SLOTS, *slots)
        used = [([name], look.kv) for name, look in looks if look.kv is not None]
        if used:
            yield _of(table.KV_USED, *used)


def _of(row: table.MetricRow, *values: tuple[list[str], float]) -> Metric:
    made: Any = family_of(row)
    for labels, value in values:
        made.add_metric(labels, float(value))
    return made  # type: ignore[no-any-return]
