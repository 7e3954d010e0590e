"""How far two token counts of the same text may differ."""

from __future__ import annotations

from cacheproxy.core.servers.profile import Memory, MemoryKind

_TOLERANCE = 0.05
"""Share of the turn before that may be computed again without being called a break: servers
reuse whole batches, and templates close the last message in their own way."""
_TOLERANCE_TOKENS = 32
_CHECKPOINT = 640
"""Tokens from the end of a prompt to the checkpoint before it: llama-server makes one 516 before
the end (a batch of 512 and 4 more)."""


def allowed(before: int, prompt: int, memory: Memory, *, changed: bool = False) -> float:
    """Return how many of the ``before`` tokens may be evaluated again.

    A prompt that has become shorter than the one before cannot reuse all of it. Whole blocks are
    reused, of a hybrid model one less; memory that cannot rewind goes back to its last checkpoint,
    which is the cost of a change if the client ``changed`` something.
    """
    tokens = max(0, before - prompt) + max(_TOLERANCE_TOKENS, _TOLERANCE * before)
    if memory.kind is MemoryKind.BLOCKS:
        tokens += (memory.block or 0) * (1 + memory.is_hybrid)
    if memory.kind is MemoryKind.CHECKPOINTED and not changed:
        tokens += _CHECKPOINT
    return tokens


def near(tokens: int, memory: Memory | None = None) -> float:
    """Return how far from ``tokens`` a count may be that is the same place in a prompt."""
    block = (memory.block or 0) * (1 + memory.is_hybrid) if memory is not None else 0
    return max(_TOLERANCE_TOKENS, 0.03 * tokens) + block
