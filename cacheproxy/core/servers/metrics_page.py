"""The figures of a model server's ``/metrics`` page: llama-server, vLLM, SGLang.

What the names mean, and where that is said:

- llama-server (``tools/server/README.md`` and ``server-context.cpp`` of llama.cpp; the page's own
  HELP lines): ``prompt_tokens_total`` excludes cached tokens, which are counted by
  ``prompt_tokens_cached_total`` (builds since August 2026). No labels, no start time.
- vLLM (``docs/design/metrics.md``, ``vllm/v1/metrics/loggers.py``): ``prompt_tokens`` includes
  cached ones. ``prompt_tokens_cached`` counts those, in older versions only
  ``prefix_cache_hits`` ("in terms of number of cached tokens"; ``prefix_cache_queries`` beside it
  in queried tokens). Its client library appends ``_total``. Series by ``engine``.
- SGLang (``docs/references/production_metrics.md``, ``python/sglang/srt/metrics/collector.py``,
  ``observe_one_finished_request``): ``prompt_tokens_total`` includes cached ones,
  ``cached_tokens_total`` (by ``cache_source``) appears with the first hit.

- vLLM's ``cache_config_info`` (``CacheConfig.metrics_info``) says in its labels how its memory is
  made: blocks of ``block_size`` tokens, ``mamba_block_size`` where a part of the model has a state
  instead, ``kv_cache_size_tokens`` or ``num_gpu_blocks`` of it, ``enable_prefix_caching``.

Both Python servers export ``process_start_time_seconds`` unless they count in several processes.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from cacheproxy.core.servers.counters import ServerFigures

_LONGEST_NAME = 120
_MOST = frozenset({"kv"})
"""Figures of which several series have a largest, not a sum."""

_LLAMA = "llamacpp:"
_VLLM = "vllm:"
_SGLANG = "sglang:"

# What each figure is called, the first that is there; and how several series become one.
_NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    _LLAMA: {
        "evaluated": ("prompt_tokens_total",),
        "reused": ("prompt_tokens_cached_total",),
        "generated": ("tokens_predicted_total",),
        "prefill": ("prompt_seconds_total",),
        "generation": ("tokens_predicted_seconds_total",),
        "running": ("requests_processing",),
        "waiting": ("requests_deferred",),
    },
    _VLLM: {
        "prompt": ("prompt_tokens_total", "prompt_tokens"),
        "reused": (
            "prompt_tokens_cached_total",
            "prefix_cache_hits_total",
            "prefix_cache_hits",
            "gpu_prefix_cache_hits_total",
        ),
        "generated": ("generation_tokens_total", "generation_tokens"),
        "prefill": ("request_prefill_time_seconds_sum",),
        "generation": ("request_decode_time_seconds_sum",),
        "requests": ("request_success_total", "request_success"),
        "running": ("num_requests_running",),
        "waiting": ("num_requests_waiting",),
        "kv": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    },
    _SGLANG: {
        "prompt": ("prompt_tokens_total",),
        "reused": ("cached_tokens_total",),
        "generated": ("generation_tokens_total",),
        "requests": ("num_requests_total",),
        "running": ("num_running_reqs",),
        "waiting": ("num_queue_reqs",),
        "kv": ("token_usage",),
    },
}
_START = "process_start_time_seconds"
_CACHE = "vllm:cache_config_info"
_LABEL = re.compile(r'\b(\w+)="([^"\\]{0,40})"')
_LONGEST_LABELS = 8192
_MOST_ENGINES = 64
_MOST_SERIES = 4096
"""A server has some dozens, times its engines."""
_WANTED = re.compile(
    "^(?:"
    + "|".join(
        re.escape(prefix + name)
        for prefix, figures in _NAMES.items()
        for names in figures.values()
        for name in names
    )
    + f"|{_START}|{_CACHE})"
    + r"(?:\{.*\})?[ \t]+\S.*$",
    re.MULTILINE,
)
"""The lines we read. A page of vLLM has thousands more, and to parse them takes 60 times longer."""


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """How vLLM keeps prompts. None: not told."""

    block: int | None = None  #: tokens of a block
    capacity: int | None = None  #: tokens in all
    is_hybrid: bool = False  #: a part of the model keeps a state beside the blocks
    reuses: bool | None = None  #: whether prompts are looked up there at all


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at ``/metrics``. None: not told."""

    figures: ServerFigures  #: its counters, as told
    model: str | None = None  #: the one name in its labels
    start: str | None = None  #: of the process, as text
    running: int | None = None  #: requests
    waiting: int | None = None  #: requests
    kv: float | None = None  #: share of the KV cache in use, 0 to 1
    cache: CacheConfig | None = None  #: how its memory is made


def sample_of(page: str) -> Sample | None:
    """Return what ``page``, in Prometheus' text format, says; None if no server we know says it."""
    lines = _WANTED.findall(page)
    if len(lines) > _MOST_SERIES:
        return None
    configs = [line for line in lines if line.startswith(_CACHE)]
    counted = [line for line in lines if not line.startswith(_CACHE)]
    values, models, start = _series("\n".join(counted) + "\n")
    for prefix, figures in _NAMES.items():
        found = {
            figure: value
            for figure, names in figures.items()
            if (value := _first(values, prefix, figure, names)) is not None
        }
        if not any(figure in found for figure in ("prompt", "evaluated", "generated")):
            continue
        if prefix == _SGLANG and "prompt" in found:
            found.setdefault("reused", 0.0)  # the series is not there until the first hit
        running, waiting, kv = (found.pop(name, None) for name in ("running", "waiting", "kv"))
        return Sample(
            ServerFigures(**found),
            model=_model(models),
            start=start,
            running=None if running is None else int(running),
            waiting=None if waiting is None else int(waiting),
            kv=kv,
            cache=_cache_config(configs),
        )
    return None


def _cache_config(lines: Sequence[str]) -> CacheConfig | None:
    """Return what the lines of all engines say, where they say the same."""
    found = {_read_config(line[:_LONGEST_LABELS]) for line in lines[:_MOST_ENGINES]}
    return found.pop() if len(found) == 1 else None


def _read_config(line: str) -> CacheConfig:
    labels = dict(_LABEL.findall(line))
    block = _tokens(labels.get("block_size"))
    blocks = _tokens(labels.get("num_gpu_blocks"))
    capacity = _tokens(labels.get("kv_cache_size_tokens"))
    if capacity is None and block is not None and blocks is not None:
        capacity = block * blocks
    return CacheConfig(
        block,
        capacity,
        is_hybrid=_tokens(labels.get("mamba_block_size")) is not None,
        reuses={"True": True, "False": False}.get(labels.get("enable_prefix_caching", "")),
    )


def _tokens(text: str | None) -> int | None:
    """Return a number of tokens or blocks; None for "None", and for what cannot be one."""
    if text is None or not (text.isascii() and text.isdecimal() and len(text) < 16):
        return None
    return int(text) or None


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
