"""How far two counts of tokens may be apart."""

import pytest

from cacheproxy.core.judge.counted import allowed, near
from cacheproxy.core.servers.profile import Memory, MemoryKind

REWINDABLE = Memory(MemoryKind.REWINDABLE)
CHECKPOINTED = Memory(MemoryKind.CHECKPOINTED)


def blocks(size, *, is_hybrid=False):
    return Memory(MemoryKind.BLOCKS, block=size, is_hybrid=is_hybrid)


@pytest.mark.parametrize(
    ("before", "prompt", "memory", "changed", "tokens"),
    [
        (2000, 2100, REWINDABLE, False, 100),
        (2000, 2100, Memory(), False, 100),
        (2000, 2100, blocks(128), False, 228),
        (2000, 2100, blocks(448, is_hybrid=True), False, 996),
        (2000, 2100, CHECKPOINTED, False, 740),
        # going back to a checkpoint is the cost of a change where there is one: else a quarter of
        # a prompt could be lost to an edit, and be called fine
        (2000, 2100, CHECKPOINTED, True, 100),
        (2000, 2100, blocks(128), True, 228),
        (2000, 1500, REWINDABLE, False, 600),  # a shorter prompt cannot reuse more than it has
        (100, 120, REWINDABLE, False, 32),  # short ones have a batch of tolerance
    ],
)
def test_what_may_be_evaluated_again_without_a_break(before, prompt, memory, changed, tokens):
    assert allowed(before, prompt, memory, changed=changed) == tokens


def test_what_is_near():
    assert (near(100), near(100, blocks(16)), near(10_000)) == (32, 48, 300)
