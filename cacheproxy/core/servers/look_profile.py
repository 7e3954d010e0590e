"""What a server's status pages say about its memory and its reports of reuse.

Measured: llama.cpp of October 2026, vLLM 0.32, mlx-lm 0.32, transformers 5.19. By their
documentation and source: Ollama (``prompt_eval_cached_count`` since 0.33.3), SGLang (its
``--enable-cache-report`` leaves a zero out), LM Studio, TabbyAPI.
"""

from __future__ import annotations

import re
from dataclasses import replace

from cacheproxy.core.servers.flags import of_kind
from cacheproxy.core.servers.identify import (
    LLAMA_SERVER,
    LM_STUDIO,
    MLX,
    OLLAMA,
    SGLANG,
    TABBY,
    TRANSFORMERS,
    VLLM,
)
from cacheproxy.core.servers.profile import Memory, MemoryKind, Profile, Reporting
from cacheproxy.core.servers.status import Look

_REPORTS = {
    LLAMA_SERVER: Reporting.ALWAYS,
    MLX: Reporting.ALWAYS,
    VLLM: Reporting.FLAGGED,
    SGLANG: Reporting.WHEN_SOME,
    TRANSFORMERS: Reporting.NEVER,
    LM_STUDIO: Reporting.NEVER,
    TABBY: Reporting.NEVER,
}
_OLLAMA_REPORTS = (0, 33, 3)
_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})", re.ASCII)
_LITTLE = 0.5
"""Share of a unified memory in use below which nothing is cleared for want of room."""


def profile_from_look(look: Look, before: Profile | None = None) -> Profile:
    """Return what ``look`` tells; ``before``: what an earlier look at the same server told.

    What a look does not say has not changed.
    """
    server = look.server
    if server is None:
        return before or Profile()
    cache = look.sample.cache if look.sample is not None else None
    counts = look.sample is not None and look.sample.figures.reused is not None
    known = before or Profile()
    reuses = cache.reuses if cache is not None else None
    return Profile(
        server=server,
        memory=_memory(look, known.memory),
        reporting=_reporting(server.kind, server.version),
        flag=of_kind(server.kind).reporting,
        counts_reuse=counts or known.counts_reuse,
        # A cache that is on may still never find anything: only "off" is an answer.
        reuses=False if server.kind == TRANSFORMERS or reuses is False else None,
        start=look.start or known.start,
        told_by="its status pages",
    )


def _reporting(kind: str, version: str | None) -> Reporting:
    if kind != OLLAMA:
        return _REPORTS.get(kind, Reporting.UNKNOWN)
    found = _VERSION.match(version or "")
    if found is None:
        return Reporting.UNKNOWN
    reports = tuple(map(int, found.groups())) >= _OLLAMA_REPORTS
    return Reporting.ALWAYS if reports else Reporting.NEVER


def _memory(look: Look, before: Memory) -> Memory:
    assert look.server is not None
    kind = look.server.kind
    if kind == VLLM:
        return _blocks(look, before)
    if kind == LLAMA_SERVER:
        return _slots(look, before)
    context = look.context if kind == OLLAMA else look.server.context
    return replace(before, context=context or before.context)


def _blocks(look: Look, before: Memory) -> Memory:
    assert look.server is not None
    cache = look.sample.cache if look.sample is not None else None
    context = look.server.context or before.context
    if cache is None or cache.block is None:
        return replace(before, context=context)
    return Memory(
        MemoryKind.BLOCKS,
        block=cache.block,
        is_hybrid=cache.is_hybrid,
        context=context,
        capacity=cache.capacity,
    )


def _slots(look: Look, before: Memory) -> Memory:
    """Return the memory of llama-server: each slot's context, and whether they share it.

    Its pages do not say so. Slots that hold more than one context between them do not share it;
    a slot that was cleared while idle does: that is done to shared ones alone, when a new task
    begins (and the prompt is kept in RAM then), or where there is no more room.
    """
    assert look.server is not None
    server = look.server
    context = server.context or next((slot.context for slot in look.slots), None) or before.context
    count = server.slots or len(look.slots) or before.slots
    unified, ram = before.is_unified, before.has_ram
    used = sum(slot.used for slot in look.slots)
    if count is not None and count > 1 and context is not None:
        if used > context:
            unified = False
        elif look.has_cleared:
            unified = True
            ram = True if used < _LITTLE * context else ram
    capacity = None
    if context is not None and count is not None:
        if count == 1 or unified:
            capacity = context
        elif unified is False:
            capacity = context * count
    return replace(
        before,
        slots=count,
        context=context,
        is_unified=unified if count != 1 else None,
        has_ram=ram,
        capacity=capacity,
    )
