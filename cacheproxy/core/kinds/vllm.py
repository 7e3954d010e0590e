"""vLLM. Read and measured: 0.32 (``vllm serve --help=CacheConfig``).

- Its metrics (``docs/design/metrics.md``, ``vllm/v1/metrics/loggers.py``): ``prompt_tokens``
  includes cached ones. ``prompt_tokens_cached`` counts those, in older versions only
  ``prefix_cache_hits`` ("in terms of number of cached tokens"; ``prefix_cache_queries`` beside it
  in queried tokens). Its client library appends ``_total``. Series by ``engine``.
- ``cache_config_info`` (``CacheConfig.metrics_info``) describes its memory in its labels: blocks
  of ``block_size`` tokens, ``mamba_block_size`` where a part of the model has a state instead,
  their number (``kv_cache_size_tokens`` or ``num_gpu_blocks``), ``enable_prefix_caching``.
- It drops Claude Code's billing line: ``vllm.renderers.chat_utils``,
  ``_strip_claude_code_billing_header``, whatever is rendered as chat, so Responses, too; on
  messages the block that is this line (``vllm.entrypoints.anthropic.serving``,
  ``_convert_system_message``). Not for role developer.
- POST ``/tokenize`` with ``messages`` shows the prompt (chat_completion/protocol.py and
  tokenize/protocol.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cacheproxy.core.kinds.kind import (
    CounterNames,
    FlagAdvice,
    Recognition,
    RenderingPage,
    Repair,
    Reuse,
    ServerKind,
    Serving,
    Settings,
    StatusReading,
)
from cacheproxy.core.kinds.profile import Memory, MemoryKind, Reporting, Shares
from cacheproxy.core.kinds.status import MODELS, CacheConfig, Look

_LINE = Repair(re.compile(r"x-anthropic-billing-header[^\n]*\n?"), "")


def _blocks(look: Look, before: Memory) -> Memory:
    cache = look.sample.cache if look.sample is not None else None
    context = (look.server.context if look.server is not None else None) or before.context
    if cache is None or cache.block is None:
        return replace(before, context=context)
    return Memory(
        MemoryKind.BLOCKS,
        block=cache.block,
        is_hybrid=cache.is_hybrid,
        context=context,
        capacity=cache.capacity,
    )


def _cache_config(labels: Mapping[str, str]) -> CacheConfig:
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


def _tokens(said: str | None) -> int | None:
    """Return a label's number of tokens or blocks; None for "None", 0 and anything else."""
    if said is None or not (said.isascii() and said.isdecimal() and len(said) < 16):
        return None
    return int(said) or None


def _spelled(chat: dict[str, Any]) -> dict[str, Any]:
    """Return ``chat`` with ``reasoning_content`` renamed: the page reads only ``reasoning``."""
    return {**chat, "messages": [*map(_renamed, chat["messages"])]}


def _renamed(message: Any) -> Any:
    thought = message.get("reasoning_content") if isinstance(message, dict) else None
    if thought is None:
        return message
    others = {name: value for name, value in message.items() if name != "reasoning_content"}
    return others if others.get("reasoning") is not None else {**others, "reasoning": thought}


VLLM = ServerKind(
    "vLLM",
    port=8000,
    recognition=Recognition(
        owner="vllm",
        pages=(MODELS,),
        more=("/version",),
        version_page="/version",
        lasting=("/version",),
    ),
    reading=StatusReading(
        memory=_blocks,
        counters=CounterNames(
            "vllm:",
            {
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
            config="cache_config_info",
            read_config=_cache_config,
        ),
    ),
    reuse=Reuse(shares=Shares.READING, reporting=Reporting.FLAGGED),
    serving=Serving(
        batches=True,
        repairs={None: _LINE},
        rendering=RenderingPage("/tokenize", {"return_token_strs": True}, True, _spelled),
    ),
    settings=Settings(
        reports="--enable-prompt-tokens-details",
        room=(
            FlagAdvice(
                "--gpu-memory-utilization 0.95",
                "more of the GPU for prompts than 0.92 (or --kv-cache-memory-bytes N; on a CPU: "
                "VLLM_CPU_KVCACHE_SPACE=GIB)",
            ),
            FlagAdvice("--kv-offloading-size 16", "16 GiB of RAM for what has to leave the GPU"),
        ),
        caching=FlagAdvice("without --no-enable-prefix-caching", "it is on by default"),
        context="--max-model-len",
        kwargs="--default-chat-template-kwargs '{}'",
        template="--chat-template FILE",
    ),
)
