"""The figures of a model server's ``/metrics`` page; each kind of server has its own names.

Python servers export ``process_start_time_seconds`` unless they count in several processes.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from prometheus_client.parser import text_string_to_metric_families

from cacheproxy.core.servers.kind import CounterNames, ServerKind
from cacheproxy.core.servers.kinds import all_kinds
from cacheproxy.core.servers.status import CacheConfig, Sample, ServerFigures

_LONGEST_NAME = 120
_MOST = frozenset({"kv"})
"""Figures of which several series have a largest, not a sum."""
_START = "process_start_time_seconds"
_LABEL = re.compile(r'\b(\w+)="([^"\\]{0,40})"')
_LONGEST_LABELS = 8192
_MOST_ENGINES = 64
_MOST_SERIES = 4096
"""A server has some dozens, times its engines."""


@lru_cache(maxsize=4)
def _wanted(kinds: Sequence[ServerKind]) -> tuple[re.Pattern[str], tuple[CounterNames, ...]]:
    """Return what finds the lines we read, and the names of all kinds.

    A page of vLLM has thousands more, and to parse them takes 60 times longer.
    """
    counters = tuple(kind.counters for kind in kinds if kind.counters is not None)
    wanted = [_START]
    for one in counters:
        names = [name for names in one.names.values() for name in names]
        wanted += [re.escape(one.prefix + name) for name in (*names, *filter(None, [one.config]))]
    lines = "^(?:" + "|".join(wanted) + r")(?:\{.*\})?[ \t]+\S.*$"
    return re.compile(lines, re.MULTILINE), counters


def sample_of(page: str) -> Sample | None:
    """Return what ``page``, in Prometheus' text format, says; None if no server we know says it."""
    wanted, counters = _wanted(all_kinds())
    lines = wanted.findall(page)
    if len(lines) > _MOST_SERIES:
        return None
    labelled = tuple(one.prefix + one.config for one in counters if one.config)
    counted = [line for line in lines if not (labelled and line.startswith(labelled))]
    values, models, start = _series("\n".join(counted) + "\n")
    for one in counters:
        found = {
            figure: value
            for figure, names in one.names.items()
            if (value := _first(values, one.prefix, figure, names)) is not None
        }
        if not any(figure in found for figure in ("prompt", "evaluated", "generated")):
            continue
        if one.comes_with_hits and "prompt" in found:
            found.setdefault("reused", 0.0)
        running, waiting, kv = (found.pop(name, None) for name in ("running", "waiting", "kv"))
        return Sample(
            ServerFigures(**found),
            model=_model(models),
            start=start,
            running=None if running is None else int(running),
            waiting=None if waiting is None else int(waiting),
            kv=kv,
            cache=_cache_config(one, lines),
        )
    return None


def _cache_config(names: CounterNames, lines: Sequence[str]) -> CacheConfig | None:
    """Return what the lines of all engines say, where they say the same."""
    if names.read_config is None:
        return None
    series = names.prefix + names.config
    labels = [_LABEL.findall(line[:_LONGEST_LABELS]) for line in lines if line.startswith(series)]
    found = {names.read_config(dict(each)) for each in labels[:_MOST_ENGINES]}
    return found.pop() if len(found) == 1 else None


def _series(text: str) -> tuple[dict[str, list[float]], set[str], str | None]:
    """Return the values of each name, all model names, and the start of the process."""
    values: dict[str, list[float]] = defaultdict(list)
    models: set[str] = set()
    start = None
    for line in text.splitlines(keepends=True):
        try:
            families = list(text_string_to_metric_families(line))
        except (ValueError, IndexError, KeyError):  # one odd line is not all the page
            continue
        for sample in (sample for family in families for sample in family.samples):
            if not (math.isfinite(sample.value) and sample.value >= 0):
                continue
            if sample.name == _START:
                start = repr(sample.value)
                continue
            values[sample.name].append(sample.value)
            models.update(filter(None, [sample.labels.get("model_name")]))
    return values, models, start


def _first(
    values: Mapping[str, list[float]], prefix: str, figure: str, names: tuple[str, ...]
) -> float | None:
    for name in names:
        found = values.get(prefix + name)
        if found:
            return max(found) if figure in _MOST else math.fsum(found)
    return None


def _model(models: set[str]) -> str | None:
    if len(models) != 1:
        return None
    model = next(iter(models))
    return model[:_LONGEST_NAME] if model.isprintable() else None
