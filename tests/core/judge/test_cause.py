"""Why less was reused than could have been: a cause is named only with proof."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, Rewrite, Sign, Verdict
from cacheproxy.core.judge.cause import allowed, cause_of, near, signs_of
from cacheproxy.core.judge.evidence import NOTHING_SEEN, Before, Evidence, Meanwhile, Proof
from cacheproxy.core.servers.profile import UNKNOWN, Memory, MemoryKind, Profile
from tests.core.judging import FIRST, SECOND
from tests.core.planting import request

BEFORE = 10_000
REWINDABLE = Profile(memory=Memory(MemoryKind.REWINDABLE))
CHECKPOINTED = Profile(memory=Memory(MemoryKind.CHECKPOINTED))
BLOCKS = Profile(memory=Memory(MemoryKind.BLOCKS, block=16, capacity=20_000))
OTHERS = Meanwhile(others=1, evaluated=3_000)
SYSTEM = Reason.SYSTEM_CHANGED
ADDS = "this request only appends to the one before"


def loss(reused, *, shared=BEFORE, change=None, was_ok=True, generated=50, caches=True, **other):
    """A turn that only adds to the last: nothing is known of the server, nothing was seen.

    With what ``cause_of`` is told besides.
    """
    before = Before(FIRST, FIRST, BEFORE, was_ok=was_ok, generated=generated)
    asked = request({"messages": [], "cache_prompt": caches})
    usage = Usage(11_000, reused)
    return Evidence(before, SECOND, SECOND, usage, request=asked, **other), change, shared


def because(reason, basis=None, rewrite=None, beneath=None, **other):
    """What is said of a break."""
    return Verdict(Judgement.BREAK, reason, basis=basis, rewrite=rewrite, beneath=beneath, **other)


def rendered(shared, **other):
    """What two rendered prompts show that share so many tokens."""
    return Proof(BEFORE, 11_000, shared, **other)


AGREE = rendered(BEFORE)
THOUGHTS = rendered(6_000, rewrite=Rewrite.THINKING)
FITS = rendered(4_000, fits=True)
LATE = rendered(9_000, fits=True)


def edited(reused, **other):
    """The client changed its system text, 4,000 tokens into the prompt."""
    return loss(reused, **({"shared": 4_000, "change": SYSTEM} | other))


def of(memory, **other):
    return Profile(memory=memory, **other)


FULL = of(Memory(context=11_000))
BLOCKS_OF_1024 = of(Memory(MemoryKind.BLOCKS, block=1024))
CLOCK = rendered(BEFORE, clock=300)
MODEL = because(Reason.MODEL_CHANGED, Basis.TOLD)
MOVED = because(Reason.MOVED, Basis.TOLD)
NOT_CACHED = because(Reason.NOT_CACHED, Basis.TOLD)
SHIFTED = because(Reason.CONTEXT_SHIFTED, Basis.TOLD)
RESTARTED = because(Reason.EVICTED, Basis.TOLD, evidence=(Sign.RESTARTED,))
COUNTED, RENDERED = because(SYSTEM, Basis.COUNTED), because(SYSTEM, Basis.RENDERED)
DROPPED = because(Reason.TEMPLATE_CHANGED, Basis.RENDERED, Rewrite.THINKING)
MOVED_ON = because(Reason.TEMPLATE_CHANGED, Basis.RENDERED, Rewrite.CLOCK)


@pytest.mark.parametrize(
    ("turn", "cause"),
    [
        # what is told needs no comparison
        (loss(0, change=Reason.MODEL_CHANGED), MODEL),
        (loss(0, change=Reason.MODEL_CHANGED, proof=AGREE), MODEL),
        (loss(0, meanwhile=Meanwhile(moved=True)), MOVED),
        (edited(0, meanwhile=Meanwhile(moved=True)), MOVED),
        (loss(0, profile=Profile(reuses=False)), NOT_CACHED),
        (loss(0, caches=False), NOT_CACHED),
        (loss(0, generated=1_000, profile=FULL), SHIFTED),
        (loss(20, generated=993, profile=FULL), SHIFTED),
        (edited(10, generated=1_000, profile=FULL), SHIFTED),
        # a restart is evidence of itself, but not of what the client changed: the rest was reused
        (loss(0, meanwhile=Meanwhile(restarted=True)), RESTARTED),
        (loss(0, meanwhile=Meanwhile(restarted=True), proof=AGREE), RESTARTED),
        (edited(4_000, meanwhile=Meanwhile(restarted=True)), COUNTED),
        (edited(4_000, meanwhile=Meanwhile(restarted=True), proof=FITS), RENDERED),
        (edited(4_000, generated=1_000, profile=FULL), COUNTED),  # nor is a full context
        # the count is where the requests part, about: characters are an estimate
        (edited(4_100), COUNTED),
        (edited(3_500), COUNTED),
        (edited(3_072, profile=BLOCKS_OF_1024), COUNTED),
        # the rendered prompts part where all that was reused ends, whatever the memory
        *((edited(4_000, proof=FITS, profile=one), RENDERED) for one in (UNKNOWN, CHECKPOINTED)),
        *((loss(6_000, proof=THOUGHTS, profile=one), DROPPED) for one in (REWINDABLE, BLOCKS)),
        # a change at the end does not hide what the template did before it
        (loss(6_000, shared=9_800, change=Reason.MESSAGES_CHANGED, proof=THOUGHTS), DROPPED),
        # a text may be spelled in another way in what was rendered
        (edited(3_800, proof=rendered(3_800)), RENDERED),
        # a prompt that shares too little with a slot is given another one: that is the change
        (edited(0, shared=1_000, proof=rendered(1_000, fits=True), meanwhile=OTHERS), RENDERED),
        # the larger part of a loss names it: 3,000 are missing, 6,000 stand behind the change
        (edited(1_000, proof=FITS, profile=REWINDABLE), RENDERED),
        # both are rendered at one time, so they agree, and the reuse ends at the clock
        (loss(310, proof=CLOCK), MOVED_ON),
    ],
)
def test_a_cause_is_named_with_proof(turn, cause):
    assert cause_of(*turn) == cause


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        # a cache that is off gives nothing; a context that has room is not shifted
        (loss(30, profile=Profile(reuses=False)), ADDS),
        (loss(30, caches=False), ADDS),
        (loss(0, profile=Profile(reuses=True)), ADDS),
        (loss(0, generated=900, profile=FULL), ADDS),
        (loss(0, generated=None, profile=of(Memory(context=10_000))), ADDS),
        (edited(3_000), "the requests share far more than was reused"),
        (edited(6_000), "the server reused more than the requests share"),
        (edited(0), "the requests share far more than was reused"),
        (loss(0, proof=AGREE), "the rendered prompts agree"),
        (loss(2_000, proof=CLOCK), "the rendered prompts agree"),
        (
            edited(0, proof=LATE, profile=REWINDABLE),
            ("the rendered prompts share far more than was reused"),
        ),
        # another cause may explain it: it breaks like the turn before, or most was left
        (loss(0, meanwhile=OTHERS, was_ok=False), ADDS),
        (loss(6_000, meanwhile=OTHERS), ADDS),
        (edited(2_500, meanwhile=OTHERS), "the requests share far more than was reused"),
        # a checkpoint is known without proof only of such memory and with a change
        (loss(1_000, profile=CHECKPOINTED), ADDS),
        (edited(1_000, profile=REWINDABLE), "the requests share far more than was reused"),
        (loss(0, proof=AGREE, profile=CHECKPOINTED), "the rendered prompts agree"),
    ],
)
def test_else_it_is_unknown_and_what_it_is_not_is_said(turn, said):
    found = cause_of(*turn)
    assert (found.reason, found.basis, found.evidence) == (Reason.UNKNOWN, None, ())
    assert found.ruled_out[0] == said


def test_only_what_was_watched_is_ruled_out():
    """A capture shows one conversation: it does not show that there was no other."""
    profile = of(Memory(MemoryKind.REWINDABLE), start="1")
    watched = Meanwhile(others=0, restarted=False)
    none, alive, rewinds = cause_of(*loss(0, profile=profile, meanwhile=watched)).ruled_out[1:]
    assert none == "no other conversation came through this proxy in between"
    assert alive == "the server was not restarted"
    assert cause_of(*loss(0, profile=profile)).ruled_out[1:] == (rewinds,)
    assert cause_of(*loss(0, meanwhile=watched)).ruled_out[1:] == (none,)


@pytest.mark.parametrize(
    ("turn", "evidence"),
    [
        (loss(0, meanwhile=OTHERS), Sign.OTHERS),
        (loss(0, meanwhile=OTHERS, proof=AGREE), Sign.OTHERS),
        (edited(0, meanwhile=OTHERS), Sign.OTHERS),
        (edited(0, meanwhile=OTHERS, proof=FITS), Sign.OTHERS),
        (loss(0, meanwhile=Meanwhile(emptied=True)), Sign.SLOTS),
        (loss(0, meanwhile=Meanwhile(others=9, evaluated=9_000), profile=BLOCKS), Sign.FULL),
    ],
)
def test_with_evidence_it_was_evicted(turn, evidence):
    basis = Basis.COUNTED if turn[0].proof is None else Basis.RENDERED
    assert cause_of(*turn) == because(Reason.EVICTED, basis, evidence=(evidence,))


SLOTS = of(Memory(MemoryKind.REWINDABLE, slots=2))
ONE_SLOT = of(Memory(MemoryKind.REWINDABLE, slots=1))
BETWEEN = Meanwhile(others=3, alike=100)
TAKEN = (Sign.OTHERS,)


@pytest.mark.parametrize(
    ("reused", "meanwhile", "profile", "evidence"),
    [
        (1_000, NOTHING_SEEN, SLOTS, ()),
        (1_000, Meanwhile(others=0), SLOTS, ()),
        (1_000, Meanwhile(others=1), SLOTS, ()),
        (1_000, Meanwhile(others=2), SLOTS, TAKEN),
        # as many tokens were left as another conversation shares with this one
        (1_000, Meanwhile(others=1, alike=1_000), SLOTS, TAKEN),
        (1_000, Meanwhile(others=1, alike=5_000), SLOTS, ()),
        (1_000, Meanwhile(others=1), UNKNOWN, TAKEN),
        (1_000, Meanwhile(others=9, evaluated=5_000), BLOCKS, ()),
        (1_000, Meanwhile(others=1, evaluated=6_001), BLOCKS, (Sign.FULL,)),
        (0, OTHERS, BLOCKS_OF_1024, TAKEN),  # blocks, nobody knows how many
        (0, Meanwhile(restarted=True, emptied=True), SLOTS, (Sign.RESTARTED, Sign.SLOTS)),
        # it would have left what it has in common, or nothing: not most
        (9_000, BETWEEN, ONE_SLOT, ()),
        (110, BETWEEN, ONE_SLOT, TAKEN),
        (0, BETWEEN, ONE_SLOT, TAKEN),
    ],
)
def test_what_counts_as_evidence(reused, meanwhile, profile, evidence):
    turn, _, shared = loss(reused, meanwhile=meanwhile, profile=profile)
    assert signs_of(turn, shared) == evidence


@pytest.mark.parametrize(
    ("turn", "basis", "beneath", "rewrite"),
    [
        (edited(1_000, proof=FITS, profile=CHECKPOINTED), Basis.RENDERED, SYSTEM, None),
        (edited(1_000, proof=FITS), Basis.RENDERED, SYSTEM, None),
        (
            loss(1_000, proof=THOUGHTS),
            Basis.RENDERED,
            Reason.TEMPLATE_CHANGED,
            Rewrite.THINKING,
        ),
        (loss(1_000, proof=AGREE, profile=CHECKPOINTED), Basis.RENDERED, None, None),
        (edited(1_000, profile=CHECKPOINTED), Basis.COUNTED, SYSTEM, None),
    ],
)
def test_memory_that_could_only_go_back_to_a_checkpoint(turn, basis, beneath, rewrite):
    assert cause_of(*turn) == because(Reason.CHECKPOINT, basis, rewrite, beneath)


@pytest.mark.parametrize(("reused", "reason"), [(0, Reason.EVICTED), (3_000, Reason.CHECKPOINT)])
def test_what_is_left_tells_a_checkpoint_from_an_eviction(reused, reason):
    """More than the other conversation has in common with this one was left."""
    meanwhile = Meanwhile(others=1, alike=400)
    turn = edited(reused, proof=FITS, profile=CHECKPOINTED, meanwhile=meanwhile)
    assert cause_of(*turn).reason is reason


def test_what_the_memory_did_hides_no_change_beneath_it():
    found = cause_of(*edited(1_000, shared=9_000, proof=LATE, profile=REWINDABLE))
    assert (found.reason, found.beneath) == (Reason.UNKNOWN, SYSTEM)


CHANGES = [None, Reason.MODEL_CHANGED, SYSTEM, Reason.TOOLS_CHANGED, Reason.MESSAGES_CHANGED]
COUNTS = st.integers()


@given(
    change=st.sampled_from(CHANGES),
    shared=COUNTS,
    before=st.builds(
        Before,
        st.just(FIRST),
        st.just(FIRST),
        COUNTS,
        generated=st.none() | COUNTS,
        was_ok=st.booleans(),
    ),
    usage=st.builds(Usage, st.none() | COUNTS, st.none() | COUNTS),
    profile=st.builds(Profile),
    meanwhile=st.builds(Meanwhile),
    proof=st.none() | st.builds(Proof),
    caches=st.booleans(),
)
def test_no_cause_without_proof(change, shared, before, usage, caches, **known):
    asked = request({"messages": [], "cache_prompt": caches})
    turn = Evidence(before, SECOND, SECOND, usage, request=asked, **known)
    found = cause_of(turn, change, shared)
    assert (found.basis is None) == (found.reason is Reason.UNKNOWN)
    assert bool(found.evidence) == (found.reason is Reason.EVICTED)
    assert set(found.evidence) <= set(signs_of(turn, shared))
    assert found.basis is not Basis.RENDERED or turn.proof is not None
    assert bool(found.ruled_out) == (found.reason is Reason.UNKNOWN)
    assert found.beneath in (None, change, Reason.TEMPLATE_CHANGED)


REWINDS = Memory(MemoryKind.REWINDABLE)
CHECKPOINTS = Memory(MemoryKind.CHECKPOINTED)


def blocks(size, *, is_hybrid=False):
    return Memory(MemoryKind.BLOCKS, block=size, is_hybrid=is_hybrid)


@pytest.mark.parametrize(
    ("before", "prompt", "memory", "changed", "tokens"),
    [
        (2000, 2100, REWINDS, False, 100),
        (2000, 2100, Memory(), False, 100),
        (2000, 2100, blocks(128), False, 228),
        (2000, 2100, blocks(448, is_hybrid=True), False, 996),
        (2000, 2100, CHECKPOINTS, False, 740),
        # going back to a checkpoint is the cost of a change where there is one: else a quarter of
        # a prompt could be lost to an edit, and be called fine
        (2000, 2100, CHECKPOINTS, True, 100),
        (2000, 2100, blocks(128), True, 228),
        (2000, 1500, REWINDS, False, 600),  # a shorter prompt cannot reuse more than it has
        (100, 120, REWINDS, False, 32),  # short ones have a batch of tolerance
    ],
)
def test_what_may_be_evaluated_again_without_a_break(before, prompt, memory, changed, tokens):
    assert allowed(before, prompt, memory, changed=changed) == tokens


def test_what_is_near():
    assert (near(100), near(100, blocks(16)), near(10_000)) == (32, 48, 300)
