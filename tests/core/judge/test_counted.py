"""How far two counts of tokens may be apart."""

import pytest

from cacheproxy.core.judge.counted import allowed, near
from cacheproxy.core.server.profile import Kind, Memory

REWINDABLE = Memory(Kind.REWINDABLE)
CHECKPOINTED = Memory(Kind.CHECKPOINTED)


def blocks(size, *, is_hybrid=False):
    return Memory(Kind.BLOCKS, block=size, is_hybrid=is_hybrid)


@pytest.mark.parametrize(
    ("memory", "tokens"),
    [
        (REWINDABLE, 100),
        (Memory(), 100),
        (blocks(128), 228),
        (blocks(1024), 1124),
        (blocks(448, is_hybrid=True), 996),
        (CHECKPOINTED, 740),
    ],
)
def test_what_is_evaluated_again_without_a_break_depends_on_the_memory(memory, tokens):
    assert allowed(2000, 2100, memory) == tokens


def test_going_back_to_a_checkpoint_is_the_cost_of_a_change_where_there_is_one():
    """Else a quarter of a prompt of 2,000 tokens could be lost to an edit, and be called fine."""
    assert allowed(2000, 2100, CHECKPOINTED, changed=True) == 100
    assert allowed(2000, 2100, blocks(128), changed=True) == 228


def test_a_shorter_prompt_cannot_reuse_more_than_it_has():
    assert allowed(2000, 1500, REWINDABLE) == 600


def test_short_prompts_have_a_batch_of_tolerance():
    assert allowed(100, 120, REWINDABLE) == 32
    assert near(100) == 32
    assert near(100, blocks(16)) == 48
    assert near(10_000) == 300
