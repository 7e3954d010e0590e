"""Why less was reused than could have been: a cause is named only with proof."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.verdict import Basis, Evidence, Reason, Rewrite
from cacheproxy.core.judge.cause import NOTHING_SEEN, Cause, Loss, Meanwhile, cause_of, evidence_of
from cacheproxy.core.judge.proof import Proof
from cacheproxy.core.server.profile import UNKNOWN, Kind, Memory, Profile

BEFORE = 10_000
REWINDABLE = Profile(memory=Memory(Kind.REWINDABLE))
CHECKPOINTED = Profile(memory=Memory(Kind.CHECKPOINTED))
BLOCKS = Profile(memory=Memory(Kind.BLOCKS, block=16, capacity=20_000))
OTHERS = Meanwhile(others=1, evaluated=3_000)
SYSTEM = Reason.SYSTEM_CHANGED


def loss(reused, **other):
    """A turn that only adds to the last: nothing is known of the server, nothing was seen."""
    known = {
        "before": BEFORE,
        "prompt": 11_000,
        "reused": reused,
        "shared": BEFORE,
        "change": None,
        "was_ok": True,
        "generated": 50,
        "profile": UNKNOWN,
        "meanwhile": NOTHING_SEEN,
        "proof": None,
        "caches": True,
    }
    return Loss(**(known | other))


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


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (loss(0, change=Reason.MODEL_CHANGED), Reason.MODEL_CHANGED),
        (loss(0, change=Reason.MODEL_CHANGED, proof=AGREE), Reason.MODEL_CHANGED),
        (loss(0, meanwhile=Meanwhile(moved=True)), Reason.MOVED),
        (edited(0, meanwhile=Meanwhile(moved=True)), Reason.MOVED),
        (loss(0, profile=Profile(reuses=False)), Reason.NOT_CACHED),
        (loss(0, caches=False), Reason.NOT_CACHED),
        (loss(0, generated=1_000, profile=Profile(memory=Memory(context=11_000))), "shifted"),
        (loss(20, generated=993, profile=Profile(memory=Memory(context=11_000))), "shifted"),
    ],
)
def test_what_is_told_needs_no_comparison(turn, reason):
    expected = Reason.CONTEXT_SHIFTED if reason == "shifted" else reason
    assert cause_of(turn) == Cause(expected, Basis.TOLD)


@pytest.mark.parametrize(
    "turn",
    [
        loss(30, profile=Profile(reuses=False)),
        loss(30, caches=False),
        loss(0, profile=Profile(reuses=True)),
        loss(0, generated=900, profile=Profile(memory=Memory(context=11_000))),
        loss(0, generated=None, profile=Profile(memory=Memory(context=10_000))),
    ],
)
def test_what_is_not_told_after_all_is_not_named(turn):
    """A cache that is off gives nothing; a context that has room is not shifted."""
    assert cause_of(turn).reason is Reason.UNKNOWN


@pytest.mark.parametrize("proof", [None, AGREE])
def test_a_restart_is_evidence_of_itself(proof):
    found = cause_of(loss(0, meanwhile=Meanwhile(restarted=True), proof=proof))
    assert found == Cause(Reason.EVICTED, Basis.TOLD, evidence=(Evidence.RESTARTED,))


@pytest.mark.parametrize(("proof", "basis"), [(None, Basis.COUNTED), (FITS, Basis.RENDERED)])
def test_a_restart_is_not_to_blame_for_what_the_client_changed(proof, basis):
    """All that the two share was reused, so the server has kept it."""
    found = cause_of(edited(4_000, meanwhile=Meanwhile(restarted=True), proof=proof))
    assert found == Cause(SYSTEM, basis)


@pytest.mark.parametrize("reused", [3_900, 4_000, 4_100])
def test_where_the_count_is_where_the_requests_part_the_change_is_to_blame(reused):
    assert cause_of(edited(reused)) == Cause(SYSTEM, Basis.COUNTED)


def test_a_count_that_fits_whole_blocks_fits():
    profile = Profile(memory=Memory(Kind.BLOCKS, block=1024))
    assert cause_of(edited(3_072, profile=profile)).reason is SYSTEM


def test_an_estimate_by_characters_is_not_taken_at_its_word():
    assert cause_of(edited(3_500)) == Cause(SYSTEM, Basis.COUNTED)
    assert cause_of(edited(3_000)).reason is Reason.UNKNOWN


def test_more_reused_than_the_requests_share_is_said():
    found = cause_of(edited(6_000))
    assert found.reason is Reason.UNKNOWN
    assert found.ruled_out == ("the server reused more than the requests share",)


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        (loss(0), "this request only adds to the last"),
        (edited(0), "the requests share far more"),
        (loss(0, proof=AGREE), "the rendered prompts agree"),
        (edited(0, proof=LATE, profile=REWINDABLE), "the rendered prompts share far more"),
    ],
)
def test_without_evidence_it_is_unknown_and_what_it_is_not_is_said(turn, said):
    found = cause_of(turn)
    assert (found.reason, found.basis, found.evidence) == (Reason.UNKNOWN, None, ())
    assert found.ruled_out[0] == said


def test_only_what_was_watched_is_ruled_out():
    """A capture shows one conversation: it does not show that there was no other."""
    profile = Profile(memory=Memory(Kind.REWINDABLE), start="1")
    watched = Meanwhile(others=0, restarted=False)
    assert cause_of(loss(0, profile=profile, meanwhile=watched)).ruled_out[1:] == (
        "no other conversation came through this proxy in between",
        "the server was not restarted",
        "its memory can be rewound",
    )
    assert cause_of(loss(0, profile=profile)).ruled_out[1:] == ("its memory can be rewound",)
    assert cause_of(loss(0, meanwhile=watched)).ruled_out[1:] == (
        "no other conversation came through this proxy in between",
    )


@pytest.mark.parametrize(
    ("turn", "evidence"),
    [
        (loss(0, meanwhile=OTHERS), (Evidence.OTHERS,)),
        (loss(0, meanwhile=OTHERS, proof=AGREE), (Evidence.OTHERS,)),
        (edited(0, meanwhile=OTHERS), (Evidence.OTHERS,)),
        (edited(0, meanwhile=OTHERS, proof=FITS), (Evidence.OTHERS,)),
        (loss(0, meanwhile=Meanwhile(emptied=True)), (Evidence.SLOTS,)),
        (loss(0, meanwhile=Meanwhile(others=9, evaluated=9_000), profile=BLOCKS), (Evidence.FULL,)),
    ],
)
def test_with_evidence_it_was_evicted(turn, evidence):
    found = cause_of(turn)
    basis = Basis.COUNTED if turn.proof is None else Basis.RENDERED
    assert found == Cause(Reason.EVICTED, basis, evidence=evidence)


@pytest.mark.parametrize(
    "turn",
    [
        loss(0, meanwhile=OTHERS, was_ok=False),
        loss(6_000, meanwhile=OTHERS),
        edited(2_500, meanwhile=OTHERS),
    ],
)
def test_the_requests_alone_do_not_prove_an_eviction_that_another_cause_may_explain(turn):
    """A turn that breaks like the one before it; a prompt of which most was left."""
    assert cause_of(turn).reason is Reason.UNKNOWN


SLOTS = Profile(memory=Memory(Kind.REWINDABLE, slots=2))


@pytest.mark.parametrize(
    ("meanwhile", "profile", "evidence"),
    [
        (NOTHING_SEEN, SLOTS, ()),
        (Meanwhile(others=0), SLOTS, ()),
        (Meanwhile(others=1), SLOTS, ()),
        (Meanwhile(others=2), SLOTS, (Evidence.OTHERS,)),
        (Meanwhile(others=1, alike=1_000), SLOTS, (Evidence.OTHERS,)),
        (Meanwhile(others=1, alike=5_000), SLOTS, ()),
        (Meanwhile(others=1), UNKNOWN, (Evidence.OTHERS,)),
        (Meanwhile(others=9, evaluated=5_000), BLOCKS, ()),
        (Meanwhile(others=1, evaluated=6_001), BLOCKS, (Evidence.FULL,)),
        (Meanwhile(restarted=True, emptied=True), SLOTS, (Evidence.RESTARTED, Evidence.SLOTS)),
    ],
)
def test_what_counts_as_evidence(meanwhile, profile, evidence):
    """1,000 tokens were left: as many as another conversation shares with this one, say."""
    assert evidence_of(loss(1_000, meanwhile=meanwhile, profile=profile)) == evidence


def test_blocks_without_a_known_capacity_are_judged_by_the_others():
    profile = Profile(memory=Memory(Kind.BLOCKS, block=16))
    assert evidence_of(loss(0, meanwhile=OTHERS, profile=profile)) == (Evidence.OTHERS,)


@pytest.mark.parametrize("profile", [UNKNOWN, REWINDABLE, CHECKPOINTED, BLOCKS])
def test_where_the_rendered_prompts_part_and_all_before_was_reused_it_is_named(profile):
    assert cause_of(edited(4_000, proof=FITS, profile=profile)) == Cause(SYSTEM, Basis.RENDERED)
    found = cause_of(loss(6_000, proof=THOUGHTS, profile=profile))
    assert found == Cause(Reason.TEMPLATE_CHANGED, Basis.RENDERED, Rewrite.THINKING)


def test_a_change_at_the_end_does_not_hide_what_the_template_did_before_it():
    """The requests share nearly all; the rendered prompts part long before."""
    turn = loss(6_000, shared=9_800, change=Reason.MESSAGES_CHANGED, proof=THOUGHTS)
    found = cause_of(turn)
    assert (found.reason, found.rewrite) == (Reason.TEMPLATE_CHANGED, Rewrite.THINKING)


def test_a_change_is_believed_where_the_rendered_prompts_part_about_there():
    """A text may be too short, or spelled in another way, to be found in what was rendered."""
    assert cause_of(edited(3_800, proof=rendered(3_800))) == Cause(SYSTEM, Basis.RENDERED)


@pytest.mark.parametrize(
    ("turn", "beneath", "rewrite"),
    [
        (edited(1_000, proof=FITS, profile=CHECKPOINTED), SYSTEM, None),
        (edited(1_000, proof=FITS), SYSTEM, None),
        (loss(1_000, proof=THOUGHTS), Reason.TEMPLATE_CHANGED, Rewrite.THINKING),
        (loss(1_000, proof=AGREE, profile=CHECKPOINTED), None, None),
    ],
)
def test_memory_that_could_only_go_back_to_a_checkpoint(turn, beneath, rewrite):
    expected = Cause(Reason.CHECKPOINT, Basis.RENDERED, rewrite, beneath)
    assert cause_of(turn) == expected


def test_a_checkpoint_is_known_without_proof_only_of_such_memory_and_with_a_change():
    found = cause_of(edited(1_000, profile=CHECKPOINTED))
    assert found == Cause(Reason.CHECKPOINT, Basis.COUNTED, beneath=SYSTEM)
    assert cause_of(loss(1_000, profile=CHECKPOINTED)).reason is Reason.UNKNOWN
    assert cause_of(edited(1_000, profile=REWINDABLE)).reason is Reason.UNKNOWN


def test_nothing_left_of_equal_prompts_is_no_checkpoint():
    assert cause_of(loss(0, proof=AGREE, profile=CHECKPOINTED)).reason is Reason.UNKNOWN


@pytest.mark.parametrize(("reused", "reason"), [(0, Reason.EVICTED), (3_000, Reason.CHECKPOINT)])
def test_what_is_left_tells_a_checkpoint_from_an_eviction(reused, reason):
    """More than the other conversation has in common with this one was left."""
    meanwhile = Meanwhile(others=1, alike=400)
    turn = edited(reused, proof=FITS, profile=CHECKPOINTED, meanwhile=meanwhile)
    assert cause_of(turn).reason is reason


def test_a_clock_in_the_template_is_named_where_the_reuse_ends_at_it():
    """Both are rendered at one time, so they agree."""
    clock = rendered(BEFORE, clock=300)
    found = cause_of(loss(310, proof=clock))
    assert found == Cause(Reason.TEMPLATE_CHANGED, Basis.RENDERED, Rewrite.CLOCK)
    assert cause_of(loss(2_000, proof=clock)).reason is Reason.UNKNOWN


def test_a_prompt_that_shares_too_little_with_a_slot_is_given_another_one():
    """It is the change that costs, though even the little that is equal was not reused."""
    proof = rendered(1_000, fits=True)
    found = cause_of(edited(0, shared=1_000, proof=proof, meanwhile=OTHERS))
    assert found == Cause(SYSTEM, Basis.RENDERED)


def test_the_larger_part_of_a_loss_names_it():
    """Of memory that can be rewound: 3,000 tokens are missing, 6,000 stand behind the change."""
    turn = edited(1_000, proof=FITS, profile=REWINDABLE)
    assert cause_of(turn) == Cause(SYSTEM, Basis.RENDERED)
    found = cause_of(edited(1_000, shared=9_000, proof=LATE, profile=REWINDABLE))
    assert (found.reason, found.beneath) == (Reason.UNKNOWN, SYSTEM)


counts = st.integers(0, 12_000)
maybe = st.one_of(st.none(), counts)
proofs = st.builds(
    Proof,
    before=counts,
    now=counts,
    shared=counts,
    fits=st.booleans(),
    rewrite=st.one_of(st.none(), st.sampled_from(Rewrite)),
    clock=maybe,
)
memories = st.builds(
    Memory,
    kind=st.sampled_from(Kind),
    block=st.one_of(st.none(), st.sampled_from([16, 1024])),
    is_hybrid=st.booleans(),
    slots=st.one_of(st.none(), st.integers(0, 4)),
    context=maybe,
    capacity=maybe,
)
losses = st.builds(
    Loss,
    before=counts,
    prompt=counts,
    reused=maybe,
    shared=counts,
    change=st.sampled_from(
        [None, Reason.MODEL_CHANGED, SYSTEM, Reason.TOOLS_CHANGED, Reason.MESSAGES_CHANGED]
    ),
    was_ok=st.booleans(),
    generated=maybe,
    profile=st.builds(
        Profile, memory=memories, reuses=st.sampled_from([None, True, False]), start=st.none()
    ),
    meanwhile=st.builds(
        Meanwhile,
        others=st.one_of(st.none(), st.integers(0, 5)),
        alike=maybe,
        evaluated=counts,
        restarted=st.sampled_from([None, True, False]),
        emptied=st.booleans(),
        moved=st.booleans(),
    ),
    proof=st.one_of(st.none(), proofs),
    caches=st.booleans(),
)


@given(losses)
def test_no_cause_without_proof(turn):
    found = cause_of(turn)
    assert (found.basis is None) == (found.reason is Reason.UNKNOWN)
    assert bool(found.evidence) == (found.reason is Reason.EVICTED)
    assert set(found.evidence) <= set(evidence_of(turn))
    assert found.basis is not Basis.RENDERED or turn.proof is not None
    assert bool(found.ruled_out) == (found.reason is Reason.UNKNOWN)
    assert found.beneath in (None, turn.change, Reason.TEMPLATE_CHANGED)


def test_a_context_that_was_full_is_not_why_where_a_change_explains_the_loss():
    full = Profile(memory=Memory(context=BEFORE + 50))
    changed = {"change": Reason.SYSTEM_CHANGED, "shared": 2_000, "profile": full}
    assert cause_of(loss(2_000, **changed)).reason is Reason.SYSTEM_CHANGED
    assert cause_of(loss(10, **changed)).reason is Reason.CONTEXT_SHIFTED


def test_another_conversation_is_no_evidence_where_most_is_still_there():
    """It would have left what it has in common, or nothing."""
    profile = Profile(memory=Memory(kind=Kind.REWINDABLE, slots=1))
    between = Meanwhile(others=3, alike=100)
    assert evidence_of(loss(9_000, profile=profile, meanwhile=between)) == ()
    assert evidence_of(loss(110, profile=profile, meanwhile=between)) == (Evidence.OTHERS,)
    assert evidence_of(loss(0, profile=profile, meanwhile=between)) == (Evidence.OTHERS,)
