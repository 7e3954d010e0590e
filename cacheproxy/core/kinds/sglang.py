"""SGLang, by its documentation ("Server Arguments", "HiCache") and source.

Its metrics (``docs/references/production_metrics.md``, ``python/sglang/srt/metrics/collector.py``,
``observe_one_finished_request``): ``prompt_tokens_total`` includes cached tokens,
``cached_tokens_total`` (by ``cache_source``) appears with the first hit. ``--enable-cache-report``
leaves a zero out.
"""

from __future__ import annotations

from cacheproxy.core.kinds.kind import (
    CounterNames,
    FlagAdvice,
    Recognition,
    Reuse,
    ServerKind,
    Serving,
    Settings,
    StatusReading,
)
from cacheproxy.core.kinds.profile import Reporting, Shares

SGLANG = ServerKind(
    "SGLang",
    port=30000,
    recognition=Recognition(owner="sglang"),
    reading=StatusReading(
        counters=CounterNames(
            "sglang:",
            {
                "prompt": ("prompt_tokens_total",),
                "reused": ("cached_tokens_total",),
                "generated": ("generation_tokens_total",),
                "requests": ("num_requests_total",),
                "running": ("num_running_reqs",),
                "waiting": ("num_queue_reqs",),
                "kv": ("token_usage",),
            },
            comes_with_hits=True,
        )
    ),
    reuse=Reuse(shares=Shares.READ, reporting=Reporting.WHEN_SOME),
    serving=Serving(batches=True),
    settings=Settings(
        reports="--enable-cache-report",
        room=(
            FlagAdvice("--mem-fraction-static 0.9", "more of the GPU for weights and prompts"),
            FlagAdvice(
                "--enable-hierarchical-cache",
                "RAM for what has to leave the GPU (--hicache-size GB)",
            ),
        ),
        caching=FlagAdvice("without --disable-radix-cache", "it is on by default"),
        context="--context-length",
        template="--chat-template FILE",
    ),
)
