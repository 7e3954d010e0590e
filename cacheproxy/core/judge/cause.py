"""Why a server reused less than it could: a cause is named only with proof.

If no cause is proven, the verdict is "unknown", with what was ruled out. Proof that a prompt was
dropped is a restart, another conversation in its slot, slots that no longer hold it, or more
tokens evaluated since than the memory holds.
"""

from __future__ import annotations

from typing import NamedTuple

from cacheproxy.core.conversation.verdict import Basis, Evidence, Reason, Rewrite
from cacheproxy.core.judge.counted import near
from cacheproxy.core.judge.proof import Proof
from cacheproxy.core.servers.kind import UNLIKE
from cacheproxy.core.servers.profile import MemoryKind, Profile

_HALF = 0.5
_LOOSE = 0.15
"""How far off, as a share, an estimate by characters may be: parts differ in density."""
_LOOSE_TOKENS = 64
_FULL = 0.8
"""Share of the cache's room from which it is likely to have dropped something."""
_SHIFTED = 8


class Meanwhile(NamedTuple):
    """What happened at the upstream between two turns of a conversation, as far as we know."""

    others: int | None = None  #: conversations that had a turn; None where nobody watched
    alike: int | None = None
    """Tokens that this prompt shares with the last prompt of the one of them that fits what was
    reused best."""
    evaluated: int = 0  #: tokens by all of them
    restarted: bool | None = None  #: the server is another since; None where nobody watched
    emptied: bool = False  #: it was seen with slots, none of which held as much
    moved: bool = False  #: the turn before went to another upstream


NOTHING_SEEN = Meanwhile()


class Loss(NamedTuple):
    """A turn that reused less than the turn before had."""

    before: int  #: tokens of the turn before
    prompt: int  #: tokens of this one
    reused: int | None  #: tokens; None where the server does not say
    shared: int  #: tokens that the two requests share, by their characters
    change: Reason | None  #: what is named after where they part; None where this one only goes on
    was_ok: bool  #: whether the turn before had reused the one before it
    generated: int | None  #: tokens of the answer before
    profile: Profile  #: what is known of the server
    meanwhile: Meanwhile  #: what happened there between the two
    proof: Proof | None  #: what comparing rendered prompts showed
    caches: bool  #: whether the server keeps prompts at all


class Cause(NamedTuple):
    """Why; see ``Verdict`` for what the rest means."""

    reason: Reason  #: the cause
    basis: Basis | None = None  #: how it is known
    rewrite: Rewrite | None = None  #: what the template did
    beneath: Reason | None = None  #: of a CHECKPOINT, why the prompts part at all
    evidence: tuple[Evidence, ...] = ()  #: what speaks for it
    ruled_out: tuple[str, ...] = ()  #: what was looked at and is not it


def cause_of(loss: Loss) -> Cause:
    """Return why ``loss.reused`` is less than ``loss.before``."""
    if loss.change is Reason.MODEL_CHANGED:
        return Cause(Reason.MODEL_CHANGED, Basis.TOLD)
    if loss.meanwhile.moved:
        return Cause(Reason.MOVED, Basis.TOLD)
    if (loss.profile.reuses is False or not loss.caches) and not loss.reused:
        return Cause(Reason.NOT_CACHED, Basis.TOLD)
    if loss.meanwhile.restarted and _is_far_back(loss):
        return Cause(Reason.EVICTED, Basis.TOLD, evidence=(Evidence.RESTARTED,))
    if _was_shifted(loss) and (loss.change is None or _is_far_back(loss)):
        return Cause(Reason.CONTEXT_SHIFTED, Basis.TOLD)
    return _requested(loss) if loss.proof is None else _rendered(loss, loss.proof)


def evidence_of(loss: Loss) -> tuple[Evidence, ...]:
    """Return what shows that the server had dropped the turn before."""
    meanwhile, memory, reused = loss.meanwhile, loss.profile.memory, loss.reused or 0
    found = []
    if meanwhile.restarted:
        found.append(Evidence.RESTARTED)
    if memory.kind is MemoryKind.BLOCKS and memory.capacity:
        if meanwhile.evaluated + loss.before > _FULL * memory.capacity:
            found.append(Evidence.FULL)
    elif meanwhile.others:
        alike = meanwhile.alike
        took = alike is not None and abs(alike - reused) <= near(alike)
        if took or (meanwhile.others >= (memory.slots or 1) and _is_far_back(loss)):
            found.append(Evidence.OTHERS)
    if meanwhile.emptied:
        found.append(Evidence.SLOTS)
    return tuple(found)


def _rendered(loss: Loss, proof: Proof) -> Cause:
    """Name the cause by the two rendered prompts."""
    reused, memory = loss.reused or 0, loss.profile.memory
    agree = proof.shared >= proof.before - _SHIFTED
    beneath, rewrite = None, None
    if not agree:
        is_change = loss.change is not None and (
            proof.fits or proof.shared >= loss.shared * (1 - _LOOSE) - _LOOSE_TOKENS
        )
        beneath = loss.change if is_change else Reason.TEMPLATE_CHANGED
        rewrite = None if is_change else proof.rewrite
    further = proof.shared - reused
    is_clock = proof.clock is not None and abs(proof.clock - reused) <= near(proof.clock, memory)
    if is_clock and further > near(proof.shared, memory):
        return Cause(Reason.TEMPLATE_CHANGED, Basis.RENDERED, Rewrite.CLOCK)
    # A prompt that shares too little with a slot is given another one: that is not the memory.
    is_unlike = proof.shared <= UNLIKE * loss.prompt
    if beneath is not None and (is_unlike or further <= near(proof.shared, memory)):
        return Cause(beneath, Basis.RENDERED, rewrite)
    evidence = evidence_of(loss)
    is_partial = reused > near(loss.meanwhile.alike or 0)
    if evidence and (memory.kind is not MemoryKind.CHECKPOINTED or not is_partial):
        return Cause(Reason.EVICTED, Basis.RENDERED, evidence=evidence)
    can_be = memory.kind is MemoryKind.CHECKPOINTED or (
        memory.kind is MemoryKind.UNKNOWN and bool(beneath)
    )
    if can_be and (beneath is not None or reused):
        return Cause(Reason.CHECKPOINT, Basis.RENDERED, rewrite, beneath)
    if beneath is not None and further <= proof.lost:
        return Cause(beneath, Basis.RENDERED, rewrite)
    said = (
        "the rendered prompts agree"
        if agree
        else "the rendered prompts share far more than was reused"
    )
    return Cause(Reason.UNKNOWN, beneath=beneath, ruled_out=(said, *_not_evicted(loss)))


def _requested(loss: Loss) -> Cause:
    """Name the cause by the two requests, where the server does not show what it renders."""
    reused, memory = loss.reused or 0, loss.profile.memory
    loose = max(_LOOSE_TOKENS, _LOOSE * loss.shared) + near(0, memory)
    further = loss.shared - reused
    if loss.change is not None and abs(further) <= loose:
        return Cause(loss.change, Basis.COUNTED)
    evidence = evidence_of(loss)
    if further < 0:
        said = "the server reused more than the requests share"
        return Cause(Reason.UNKNOWN, ruled_out=(said,))
    is_stable = loss.change is None and loss.was_ok
    if evidence and (is_stable or loss.change is not None) and further > _HALF * loss.shared:
        return Cause(Reason.EVICTED, Basis.COUNTED, evidence=evidence)
    if memory.kind is MemoryKind.CHECKPOINTED and loss.change is not None:
        return Cause(Reason.CHECKPOINT, Basis.COUNTED, beneath=loss.change)
    said = (
        "the requests share far more than was reused"
        if loss.change
        else "this request only appends to the one before"
    )
    return Cause(Reason.UNKNOWN, ruled_out=(said, *_not_evicted(loss)))


def _is_far_back(loss: Loss) -> bool:
    shared = loss.shared if loss.proof is None else loss.proof.shared
    return shared - (loss.reused or 0) > _HALF * shared


def _was_shifted(loss: Loss) -> bool:
    """Whether the turn before, with its answer, had no room in its context."""
    context = loss.profile.memory.context
    if context is None or loss.generated is None:
        return False
    return loss.before + loss.generated >= context - _SHIFTED


def _not_evicted(loss: Loss) -> tuple[str, ...]:
    said = []
    if loss.meanwhile.others == 0:
        said.append("no other conversation came through this proxy in between")
    if loss.profile.start is not None and loss.meanwhile.restarted is False:
        said.append("the server was not restarted")
    if loss.profile.memory.kind is MemoryKind.REWINDABLE:
        said.append("its memory can be rewound")
    return tuple(said)
