"""The cause for which a server reused less than it could, named only with proof.

If no cause is proven, the verdict is "unknown", with the causes ruled out. Proof that a prompt was
dropped is a restart, another conversation in its slot, slots that no longer hold it, or more
tokens evaluated since than the memory holds.
"""

from __future__ import annotations

from functools import partial

from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, Rewrite, Sign, Verdict
from cacheproxy.core.judge.evidence import Evidence, Proof
from cacheproxy.core.kinds.kind import UNLIKE
from cacheproxy.core.kinds.profile import Memory, MemoryKind

_HALF = 0.5
_LOOSE = 0.15
"""Error, as a share, of an estimate by characters: parts differ in density."""
_LOOSE_TOKENS = 64
_FULL = 0.8
"""Share of the cache in use from which it has probably dropped prompts."""
_SHIFTED = 8
_TOLERANCE = 0.05
"""Share of the turn before that may be computed again without being called a break: servers
reuse whole batches, and templates close the last message in their own way."""
_TOLERANCE_TOKENS = 32
_CHECKPOINT = 640
"""Tokens from the end of a prompt to the checkpoint before it: llama-server makes one 516 before
the end (a batch of 512 and 4 more)."""


_because = partial(Verdict, Judgement.BREAK)


def cause_of(turn: Evidence, change: Reason | None, shared: int) -> Verdict:
    """Return the cause as a verdict without figures.

    ``change``: reason by the place where the requests part, None if this one only continues;
    ``shared``: tokens that they share, by their characters.
    """
    if change is Reason.MODEL_CHANGED:
        return _because(Reason.MODEL_CHANGED, basis=Basis.TOLD)
    if turn.meanwhile.moved:
        return _because(Reason.MOVED, basis=Basis.TOLD)
    if (turn.profile.reuses is False or not turn.caches) and not turn.usage.reused:
        signs = () if turn.caches else (Sign.NOT_WANTED,)
        return _because(Reason.NOT_CACHED, basis=Basis.TOLD, evidence=signs)
    if turn.meanwhile.restarted and _is_far_back(turn, shared):
        return _because(Reason.EVICTED, basis=Basis.TOLD, evidence=(Sign.RESTARTED,))
    if _was_shifted(turn) and (change is None or _is_far_back(turn, shared)):
        return _because(Reason.CONTEXT_SHIFTED, basis=Basis.TOLD)
    return (
        _requested(turn, change, shared)
        if turn.proof is None
        else _rendered(turn, change, shared, turn.proof)
    )


def signs_of(turn: Evidence, shared: int) -> tuple[Sign, ...]:
    """Return the signs that the server had dropped the turn before."""
    meanwhile, memory, reused = turn.meanwhile, turn.profile.memory, turn.usage.reused or 0
    found = []
    if meanwhile.restarted:
        found.append(Sign.RESTARTED)
    if memory.kind is MemoryKind.BLOCKS and memory.capacity:
        if meanwhile.evaluated + turn.had > _FULL * memory.capacity:
            found.append(Sign.FULL)
    elif meanwhile.others:
        alike = meanwhile.alike
        took = alike is not None and abs(alike - reused) <= near(alike)
        if took or (meanwhile.others >= (memory.slots or 1) and _is_far_back(turn, shared)):
            found.append(Sign.OTHERS)
    if meanwhile.emptied:
        found.append(Sign.SLOTS)
    return tuple(found)


def _rendered(turn: Evidence, change: Reason | None, shared: int, proof: Proof) -> Verdict:
    """Return the cause by the two rendered prompts; arguments: see ``cause_of``."""
    reused, memory = turn.usage.reused or 0, turn.profile.memory
    agree = proof.shared >= proof.before - _SHIFTED
    beneath, rewrite = None, None
    if not agree:
        is_change = change is not None and (
            proof.fits or proof.shared >= shared * (1 - _LOOSE) - _LOOSE_TOKENS
        )
        beneath = Reason.PARAMETERS_CHANGED if proof.is_parameter else Reason.TEMPLATE_CHANGED
        beneath, rewrite = (change, None) if is_change else (beneath, proof.rewrite)
    further = proof.shared - reused
    is_clock = proof.clock is not None and abs(proof.clock - reused) <= near(proof.clock, memory)
    if is_clock and further > near(proof.shared, memory):
        return _because(Reason.TEMPLATE_CHANGED, basis=Basis.RENDERED, rewrite=Rewrite.CLOCK)
    # A prompt that shares too little with a slot is given another one: that is not the memory.
    is_unlike = proof.shared <= UNLIKE * (turn.tokens or turn.had)
    if beneath is not None and (is_unlike or further <= near(proof.shared, memory)):
        return _because(beneath, basis=Basis.RENDERED, rewrite=rewrite)
    if agree and proof.clock is not None and reused < proof.clock:
        beneath, rewrite = Reason.TEMPLATE_CHANGED, Rewrite.CLOCK  # both were rendered at one time
    signs = signs_of(turn, shared)
    is_partial = reused > near(turn.meanwhile.alike or 0)
    if signs and (memory.kind is not MemoryKind.CHECKPOINTED or not is_partial):
        return _because(Reason.EVICTED, basis=Basis.RENDERED, evidence=signs)
    # Of an unknown memory the innocent explanation has to be ruled out: something else in the slot.
    is_proven = memory.kind is MemoryKind.UNKNOWN and turn.meanwhile.alone
    can_be = memory.kind is MemoryKind.CHECKPOINTED or (is_proven and beneath is not None)
    if can_be and (beneath is not None or reused):
        return _because(Reason.CHECKPOINT, basis=Basis.RENDERED, rewrite=rewrite, beneath=beneath)
    if beneath is not None and further <= proof.lost:
        return _because(beneath, basis=Basis.RENDERED, rewrite=rewrite)
    said = (
        "the rendered prompts agree"
        if agree
        else "the rendered prompts share far more than was reused"
    )
    return _because(Reason.UNKNOWN, beneath=beneath, ruled_out=(said, *_not_evicted(turn)))


def _requested(turn: Evidence, change: Reason | None, shared: int) -> Verdict:
    """Return the cause by the two requests, if the server shows no rendered prompts."""
    reused, memory = turn.usage.reused or 0, turn.profile.memory
    loose = max(_LOOSE_TOKENS, _LOOSE * shared) + near(0, memory)
    further = shared - reused
    if change is not None and abs(further) <= loose:
        return _because(change, basis=Basis.COUNTED)
    signs = signs_of(turn, shared)
    if further < 0:
        said = "the server reused more than the requests share"
        return _because(Reason.UNKNOWN, ruled_out=(said,))
    is_stable = change is None and turn.before is not None and turn.before.was_ok
    if signs and (is_stable or change is not None) and further > _HALF * shared:
        return _because(Reason.EVICTED, basis=Basis.COUNTED, evidence=signs)
    if memory.kind is MemoryKind.CHECKPOINTED and change is not None:
        return _because(Reason.CHECKPOINT, basis=Basis.COUNTED, beneath=change)
    if change is None and turn.parameter is not None and not turn.meanwhile.others:
        return _because(Reason.PARAMETERS_CHANGED, basis=Basis.COUNTED)
    said = (
        "the requests share far more than was reused"
        if change
        else "this request only appends to the one before"
    )
    return _because(Reason.UNKNOWN, ruled_out=(said, *_not_evicted(turn)))


def _is_far_back(turn: Evidence, shared: int) -> bool:
    shared = shared if turn.proof is None else turn.proof.shared
    return shared - (turn.usage.reused or 0) > _HALF * shared


def _was_shifted(turn: Evidence) -> bool:
    """Whether the turn before, with its answer, did not fit into the context."""
    context, before = turn.profile.memory.context, turn.before
    if before is not None and before.floor:
        return True
    if context is None or before is None or before.generated is None:
        return False
    return turn.had + before.generated >= context - _SHIFTED


def _not_evicted(turn: Evidence) -> tuple[str, ...]:
    said = []
    if turn.meanwhile.others == 0:
        said.append("no other conversation came through this proxy in between")
    if turn.profile.start is not None and turn.meanwhile.restarted is False:
        said.append("the server was not restarted")
    if turn.profile.memory.kind is MemoryKind.REWINDABLE:
        said.append("its memory can be rewound")
    return tuple(said)


def allowed(before: int, prompt: int, memory: Memory, *, changed: bool = False) -> float:
    """Return how many of the ``before`` tokens may be evaluated again without a break.

    A prompt shorter than the one before cannot reuse all of that. Whole blocks are reused, one less
    of a hybrid model; memory that cannot rewind goes back to its last checkpoint, which is the
    cost of a change if the client ``changed`` something.
    """
    tokens = max(0, before - prompt) + max(_TOLERANCE_TOKENS, _TOLERANCE * before)
    if memory.kind is MemoryKind.BLOCKS:
        tokens += (memory.block or 0) * (1 + memory.is_hybrid)
    if memory.kind is MemoryKind.CHECKPOINTED and not changed:
        tokens += _CHECKPOINT
    return tokens


def near(tokens: int, memory: Memory | None = None) -> float:
    """Return the tokens by which a count may differ from ``tokens`` and mean the same place."""
    block = (memory.block or 0) * (1 + memory.is_hybrid) if memory is not None else 0
    return max(_TOLERANCE_TOKENS, 0.03 * tokens) + block
