"""Why less was reused than could have been: a cause is named only with proof."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Basis, Reason, Rewrite, Sign
from cacheproxy.core.judge.cause import cause_of, signs_of
from cacheproxy.core.judge.evidence import Before, Evidence, Meanwhile, Proof
from cacheproxy.core.kinds.profile import Memory, MemoryKind, Profile
from tests import golden, transcript
from tests.core.judging import FIRST, SECOND, spelled
from tests.core.planting import request

BEFORE = 10_000
REWINDABLE = Profile(memory=Memory(MemoryKind.REWINDABLE))
CHECKPOINTED = Profile(memory=Memory(MemoryKind.CHECKPOINTED))
BLOCKS = Profile(memory=Memory(MemoryKind.BLOCKS, block=16, capacity=20_000))
OTHERS = Meanwhile(others=1, evaluated=3_000)
ALIKE = Meanwhile(others=1, alike=400)
ALONE = Meanwhile(others=0, alone=True)
FILE = Path(__file__).with_name("causes.txt")
SYSTEM = Reason.SYSTEM_CHANGED


def loss(reused, *, shared=BEFORE, change=None, was_ok=True, generated=50, caches=True, **other):
    """A turn that only adds to the last: nothing is known of the server, nothing was seen.

    With what ``cause_of`` is told besides.
    """
    before = Before(FIRST, FIRST, BEFORE, was_ok=was_ok, generated=generated)
    asked = request({"messages": [], "cache_prompt": caches})
    usage = Usage(11_000, reused)
    return Evidence(before, SECOND, SECOND, usage, request=asked, **other), change, shared


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
MOVED = Meanwhile(moved=True)
RESTARTED = Meanwhile(restarted=True)
NO_CACHE, CACHES = Profile(reuses=False), Profile(reuses=True)
NEAR_THE_END = {"shared": 9_800, "change": Reason.MESSAGES_CHANGED}
LITTLE = rendered(1_000, fits=True)
CASES = {
    "told, so no comparison is needed": {
        "another model": loss(0, change=Reason.MODEL_CHANGED),
        "another model, rendered": loss(0, change=Reason.MODEL_CHANGED, proof=AGREE),
        "moved": loss(0, meanwhile=MOVED),
        "moved, and edited": edited(0, meanwhile=MOVED),
        "no cache at all": loss(0, profile=NO_CACHE),
        "no cache for this request": loss(0, caches=False),
        "a full context": loss(0, generated=1_000, profile=FULL),
        "a context full but for a few": loss(20, generated=993, profile=FULL),
        "a full context, and edited": edited(10, generated=1_000, profile=FULL),
        "a restart": loss(0, meanwhile=RESTARTED),
        "a restart, rendered": loss(0, meanwhile=RESTARTED, proof=AGREE),
    },
    "neither a restart nor a full context hides what the client changed": {
        "a restart": edited(4_000, meanwhile=RESTARTED),
        "a restart, rendered": edited(4_000, meanwhile=RESTARTED, proof=FITS),
        "a full context": edited(4_000, generated=1_000, profile=FULL),
    },
    "the count is where the requests part, about: characters are an estimate": {
        "a little more": edited(4_100),
        "a little less": edited(3_500),
        "blocks": edited(3_072, profile=BLOCKS_OF_1024),
    },
    "the rendered prompts part where all that was reused ends": {
        "edited": edited(4_000, proof=FITS),
        "edited, checkpoints": edited(4_000, proof=FITS, profile=CHECKPOINTED),
        "thoughts": loss(6_000, proof=THOUGHTS, profile=REWINDABLE),
        "thoughts, blocks": loss(6_000, proof=THOUGHTS, profile=BLOCKS),
        # a change at the end does not hide what the template did before it
        "thoughts, and a late change": loss(6_000, proof=THOUGHTS, **NEAR_THE_END),
        # a text may be spelled in another way in what was rendered
        "edited, spelled anew": edited(3_800, proof=rendered(3_800)),
        # a prompt that shares too little with a slot is given another one: that is the change
        "little shared": edited(0, shared=1_000, proof=LITTLE, meanwhile=OTHERS),
        # the larger part of a loss names it: 3,000 are missing, 6,000 stand behind the change
        "the larger part": edited(1_000, proof=FITS, profile=REWINDABLE),
        # both are rendered at one time, so they agree, and the reuse ends at the clock
        "a clock": loss(310, proof=CLOCK),
    },
    "unknown, and what it is not": {
        # a cache that is off gives nothing; a context that has room is not shifted
        "reused though there is no cache": loss(30, profile=NO_CACHE),
        "reused though it was switched off": loss(30, caches=False),
        "a cache": loss(0, profile=CACHES),
        "a context with room": loss(0, generated=900, profile=FULL),
        "a full context, by nobody": loss(0, generated=None, profile=of(Memory(context=10_000))),
        "edited, too little": edited(3_000),
        "edited, too much": edited(6_000),
        "edited, nothing": edited(0),
        "rendered alike": loss(0, proof=AGREE),
        "rendered alike, before the clock": loss(2_000, proof=CLOCK),
        "rendered alike, checkpoints": loss(0, proof=AGREE, profile=CHECKPOINTED),
        "rendered, too little": edited(0, proof=LATE, profile=REWINDABLE),
        # another cause may explain it: it breaks like the turn before, or most was left
        "others, but it broke before": loss(0, meanwhile=OTHERS, was_ok=False),
        "others, but most is left": loss(6_000, meanwhile=OTHERS),
        "others, but much is left of an edit": edited(2_500, meanwhile=OTHERS),
        # a checkpoint is known without proof only of such memory and with a change
        "checkpoints, no change": loss(1_000, profile=CHECKPOINTED),
        "a change, no checkpoints": edited(1_000, profile=REWINDABLE),
        # what was in the slot is not known, or it was seen to rewind
        "a change, perhaps another in the slot": edited(500, shared=9_000, proof=LATE),
        "a change, alone, no checkpoints": edited(
            500, shared=9_000, proof=LATE, profile=REWINDABLE, meanwhile=ALONE
        ),
        # what the memory did hides no change beneath it
        "a change beneath": edited(1_000, shared=9_000, proof=LATE, profile=REWINDABLE),
    },
    "evicted, with evidence": {
        "others": loss(0, meanwhile=OTHERS),
        "others, rendered": loss(0, meanwhile=OTHERS, proof=AGREE),
        "others, edited": edited(0, meanwhile=OTHERS),
        "others, edited, rendered": edited(0, meanwhile=OTHERS, proof=FITS),
        "no slot": loss(0, meanwhile=Meanwhile(emptied=True)),
        "too much for its blocks": loss(
            0, meanwhile=Meanwhile(others=9, evaluated=9_000), profile=BLOCKS
        ),
    },
    "memory that could only go back to a checkpoint": {
        "a change": edited(1_000, profile=CHECKPOINTED),
        "a change, rendered": edited(1_000, proof=FITS, profile=CHECKPOINTED),
        # of any memory only where nothing else can have had the slot
        "a change, rendered, any memory": edited(1_000, proof=FITS, meanwhile=ALONE),
        "a change, alone, nothing is left": edited(0, shared=9_000, proof=LATE, meanwhile=ALONE),
        "thoughts": loss(1_000, proof=THOUGHTS, meanwhile=ALONE),
        "no change": loss(1_000, proof=AGREE, profile=CHECKPOINTED),
        # more than another conversation has in common with this one was left, or not
        "others, and much is left": edited(
            3_000, proof=FITS, profile=CHECKPOINTED, meanwhile=ALIKE
        ),
        "others, and nothing is left": edited(0, proof=FITS, profile=CHECKPOINTED, meanwhile=ALIKE),
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_cause_is_named_with_proof(name):
    texts = [f"{what}: {spelled(cause_of(*turn))}" for what, turn in CASES[name].items()]
    golden.agrees(FILE, name, "\n".join(texts))


def test_no_cause_is_kept_that_no_test_has():
    golden.complete(FILE, CASES)


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
    assert bool(found.evidence) == (
        found.reason is Reason.EVICTED or (found.reason is Reason.NOT_CACHED and not turn.caches)
    )
    assert set(found.evidence) <= {Sign.NOT_WANTED, *signs_of(turn, shared)}
    assert found.basis is not Basis.RENDERED or turn.proof is not None
    assert bool(found.ruled_out) == (found.reason is Reason.UNKNOWN)
    assert found.beneath in (None, change, Reason.TEMPLATE_CHANGED)


def blocks(size, *, is_hybrid=False):
    return Memory(MemoryKind.BLOCKS, block=size, is_hybrid=is_hybrid)


def test_all_that_is_said():
    transcript.holds("cause.txt", globals())
