"""What is so at the moment of asking: connections, the upstream, failures, what runs."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.metrics_core import Metric

from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.server.status import Look, State
from cacheproxy.metrics import table
from cacheproxy.metrics.family import family
from cacheproxy.metrics.labels import clean

_MOST_FAILURES = 200


@dataclass(frozen=True, slots=True)
class Now:
    """Whom to ask. All are asked on the reactor's thread.

    ``look``: returns the latest look at the upstream, None before the first. ``seconds``: the
    clock that looks are timed by. ``own``: where the paths of our own pages begin.
    """

    version: str
    failures: Failures
    seconds: Callable[[], float]
    look: Callable[[], Look | None] = lambda: None
    own: bytes = b"/_cacheproxy"


class Standing:
    """The families, as of the last ``refresh``; a collector for a registry."""

    def __init__(self, now: Now) -> None:
        self._now = now
        self._families: tuple[Metric, ...] = ()

    def describe(self) -> Iterator[Metric]:
        """Yield empty families, by which a registry knows the names."""
        yield from map(family, table.STANDING)

    def collect(self) -> Iterator[Metric]:
        """Yield what was found by the last ``refresh``."""
        yield from self._families

    def refresh(self, channels: Collection[Any]) -> None:
        """Ask all there are to ask; ``channels``: the open ones, each with its ``requests``."""
        self._families = (
            *self._failures(),
            *self._connections(channels),
            *self._upstream(),
            _of(table.BUILD, ([self._now.version, platform.python_version()], 1)),
        )

    def _failures(self) -> Iterator[Metric]:
        failed, left_out = family(table.FAILURES), family(table.LEFT_OUT)
        counts: dict[str, Counter[str]] = {}
        for name, count in list(self._now.failures.as_dict().items())[:_MOST_FAILURES]:
            counts.setdefault(clean(name), Counter()).update(count)  # long names may become one
        for label, found in counts.items():
            for kind in ("failed", "timed_out", "dropped"):
                _add(failed, [label, kind], found[kind])
            _add(left_out, [label], found["left_out"] > 0)
        yield from (failed, left_out)

    def _connections(self, channels: Collection[Any]) -> Iterator[Metric]:
        under_way = [request for channel in channels for request in channel.requests[:1]]
        own = self._now.own
        others = sum(not getattr(request, "path", b"").startswith(own) for request in under_way)
        yield _of(table.CONNECTIONS, ([], len(channels)))
        yield _of(table.STREAMS, ([], others))

    def _upstream(self) -> Iterator[Metric]:
        look = self._now.look()
        if look is None:
            return
        upstream = clean(look.url)
        yield _of(table.UP, ([upstream], look.state is State.UP))
        yield _of(table.POLL_AGE, ([upstream], max(0.0, self._now.seconds() - look.moment)))
        if look.slots:
            busy = sum(slot.busy for slot in look.slots)
            idle = len(look.slots) - busy
            yield _of(table.SLOTS, ([upstream, "busy"], busy), ([upstream, "idle"], idle))
        if look.kv is not None:
            yield _of(table.KV_USED, ([upstream], look.kv))


def _of(row: table.Row, *values: tuple[list[str], float]) -> Metric:
    made = family(row)
    for labels, value in values:
        _add(made, labels, value)
    return made


def _add(made: Any, labels: list[str], value: float) -> None:
    made.add_metric(labels, float(value))
