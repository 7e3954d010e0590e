"""The verdict where a server tells nothing, or more than counts: its state, and its prompts."""

import pytest
from msgspec.structs import replace

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Basis,
    Judgement,
    Reason,
    Rewrite,
    TokenCount,
    Verdict,
)
from cacheproxy.core.judge.evidence import Evidence, Meanwhile, Proof
from cacheproxy.core.judge.judge import judge, wants_proof
from cacheproxy.core.servers.profile import Memory, Profile, Reporting
from cacheproxy.core.servers.profile import MemoryKind as Memories
from tests.core.judging import (
    GROWN,
    SECOND,
    TOKENS,
    before,
    changed,
    judged,
    shared,
    summarised,
    verdict,
    with_last,
    with_nonce,
)

UNMEASURED = [
    (Usage(), Profile()),
    (Usage(GROWN), Profile()),
    (Usage(GROWN, 0), Profile(reporting=Reporting.NEVER)),
]
"""What is left out, and what is told as a constant."""


@pytest.mark.parametrize(("usage", "profile"), UNMEASURED)
def test_where_nothing_was_measured_nothing_is_judged_but_a_change_is_shown(usage, profile):
    one, two = changed(with_nonce)
    found = judged(before(one), two, usage, profile=profile)
    assert (found.judgement, found.reason) == (Judgement.UNKNOWN, Reason.SYSTEM_CHANGED)
    assert (found.basis, found.where.path) == (None, "/messages/0/content")
    assert found.lost.source == found.expected.source == "estimated"
    assert 0 < found.lost.tokens < TOKENS
    assert found.seconds_lost is None
    turn = Evidence(before(), SECOND, SECOND, usage, profile)
    found = judge(turn)
    assert found == Verdict(
        Judgement.UNKNOWN,
        expected=found.expected,
        lost=TokenCount(0, "estimated"),
        unedited=found.expected,
        saved=TokenCount(0, "estimated"),
    )
    assert not wants_proof(turn, found)


def test_a_constant_is_no_count_of_a_forgotten_turn_or_a_compaction_either():
    never = Profile(reporting=Reporting.NEVER)
    found = judged(None, SECOND, Usage(GROWN, 0), profile=never)
    assert found == Verdict(Judgement.UNKNOWN)
    one, two = summarised()
    found = judged(before(one), two, Usage(500, 0), profile=never, is_replaced=True)
    assert found.judgement is Judgement.COMPACTED


@pytest.mark.parametrize(
    ("usage", "source"), [(Usage(GROWN, 0), "measured"), (Usage(), "estimated")]
)
def test_a_server_that_reuses_nothing_is_told_so_whether_it_counts_or_not(usage, source):
    found = judged(before(), SECOND, usage, profile=Profile(reuses=False))
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.NOT_CACHED)
    assert (found.basis, found.lost) == (Basis.TOLD, TokenCount(TOKENS, source))


REWRITTEN = Proof(TOKENS, GROWN, 600, rewrite=Rewrite.THINKING)


def test_rendered_prompts_that_part_before_the_requests_do_prove_what_the_template_did():
    where = replace(verdict(10, sent=changed(with_nonce)[1]).where, path="/messages/2/reasoning")
    proof = replace(REWRITTEN, where=where)
    found = verdict(590, proof=proof)
    assert (found.reason, found.rewrite) == (Reason.TEMPLATE_CHANGED, Rewrite.THINKING)
    assert (found.basis, found.where.path) == (Basis.RENDERED, "/messages/2/reasoning")
    assert found.expected == found.where.position == TokenCount(600, "measured")


def test_what_is_beneath_a_checkpoint_keeps_its_place():
    one, two = changed(with_last)
    proof = Proof(TOKENS, GROWN, 700, fits=True)
    profile = Profile(memory=Memory(Memories.CHECKPOINTED))
    found = verdict(200, sent=two, known=before(one), proof=proof, profile=profile)
    assert (found.reason, found.beneath) == (Reason.CHECKPOINT, Reason.MESSAGES_CHANGED)
    assert found.where.path.startswith("/messages/")
    assert found.where.position == TokenCount(700, "measured")


def test_a_clock_in_the_template_is_placed_by_what_was_reused():
    """It stands in no request, and both prompts were rendered at one time."""
    found = verdict(60, proof=Proof(TOKENS, GROWN, TOKENS, clock=50))
    assert (found.reason, found.rewrite) == (Reason.TEMPLATE_CHANGED, Rewrite.CLOCK)
    assert (found.where, found.expected) == (None, TokenCount(60, "measured"))


def test_no_more_is_shared_than_the_prompt_has():
    proof = Proof(1_200, GROWN, 1_200)
    found = verdict(30, known=before(tokens=1_200), proof=proof)
    assert found.expected == TokenCount(GROWN, "measured")


def is_proof_wanted(reused, **known):
    turn = Evidence(
        **{"before": before(), "sent": SECOND, "unedited": SECOND} | known,
        usage=Usage(GROWN, reused),
    )
    return wants_proof(turn, judge(turn))


def test_a_proof_is_wanted_where_the_requests_do_not_tell():
    one, two = changed(with_nonce)
    exact = shared(one, two)
    for reused, wanted in ((exact, False), (exact + 60, True), (300, True), (TOKENS, False)):
        turn = {"before": before(one), "sent": two, "unedited": two}
        assert is_proof_wanted(reused, **turn) is wanted, reused
    assert is_proof_wanted(30)
    assert not is_proof_wanted(0, meanwhile=Meanwhile(moved=True))
    assert not is_proof_wanted(590, proof=REWRITTEN)
    assert not is_proof_wanted(0, before=None)
