"""The figures of a model server's ``/metrics`` page; each kind of server has its own names.

Python servers export ``process_start_time_seconds`` unless they count in several processes.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from cacheproxy.core.kinds.kind import CounterNames, ServerKind
from cacheproxy.core.kinds.known import all_kinds
from cacheproxy.core.kinds.status import CacheConfig, Sample, ServerFigures

_LONGEST_NAME = 120
_MOST = frozenset({"kv"})
"""Figures whose series are not added up: the largest counts."""
_START = "process_start_time_seconds"
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.){0,400})"')
_LONGEST_LABELS = 8192
_MOST_ENGINES = 64
Line = tuple[str, str, str]
"""A series: its name, its labels and its value, as they are written."""


@lru_cache(maxsize=4)
def _wanted(kinds: Sequence[ServerKind]) -> tuple[re.Pattern[str], tuple[CounterNames, ...]]:
    """Return the pattern of the lines that are read, and the counters of all kinds.

    vLLM's page has thousands of other lines; parsing all takes 60 times as long.
    """
    counters = tuple(kind.reading.counters for kind in kinds if kind.reading.counters is not None)
    wanted = [_START]
    for one in counters:
        names = [name for names in one.names.values() for name in names]
        wanted += [re.escape(one.prefix + name) for name in (*names, *filter(None, [one.config]))]
    line = rf"^({'|'.join(wanted)})(\{{.*\}})?[ \t]+(\S+).*$"
    return re.compile(line, re.MULTILINE), counters


def sample_of(page: str) -> Sample | None:
    """Return the figures of ``page`` (Prometheus' text format); None if it is of no known kind."""
    wanted, counters = _wanted(all_kinds())
    lines: list[Line] = wanted.findall(page)
    if len(lines) > 4096:  # series of a page at most: a server has some dozens, times its engines
        return None
    values, models = _series(lines)
    model = re.sub(r"\\(.)", r"\1", models.pop()) if len(models) == 1 else None
    start = values.pop(_START, None)
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
            model=model[:_LONGEST_NAME] if model and model.isprintable() else None,
            start=None if start is None else repr(start[-1]),
            running=None if running is None else int(running),
            waiting=None if waiting is None else int(waiting),
            kv=kv,
            cache=_cache_config(one, lines),
        )
    return None


def _cache_config(names: CounterNames, lines: Sequence[Line]) -> CacheConfig | None:
    """Return the memory as the labels of all engines describe it; None if they differ."""
    if names.read_config is None:
        return None
    told = [labels for name, labels, _ in lines if name == names.prefix + names.config]
    each = (_LABEL.findall(labels[:_LONGEST_LABELS]) for labels in told[:_MOST_ENGINES])
    found = {names.read_config(dict(labels)) for labels in each}
    return found.pop() if len(found) == 1 else None


def _series(lines: Sequence[Line]) -> tuple[dict[str, list[float]], set[str]]:
    """Return the values of each name, and all model names; odd lines are skipped."""
    values: dict[str, list[float]] = defaultdict(list)
    models: set[str] = set()
    for name, labels, said in lines:
        try:
            value = float(said)
        except ValueError:
            continue
        if math.isfinite(value) and value >= 0:
            values[name].append(value)
            models.add(dict(_LABEL.findall(labels)).get("model_name", ""))
    return values, models - {""}


def _first(
    values: Mapping[str, list[float]], prefix: str, figure: str, names: tuple[str, ...]
) -> float | None:
    for name in names:
        found = values.get(prefix + name)
        if found:
            return max(found) if figure in _MOST else math.fsum(found)
    return None
