"""What ``cacheproxy diagnose`` says of a turn, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.cli.diagnosetext import lines
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, TokenCount
from cacheproxy.core.diagnose.report import TurnReport
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.advice import Advice

FINE = TurnReport(
    number=7,
    client="claude",
    session="3f9a5e55-10n",
    turn=4,
    side=False,
    judgement=Judgement.OK,
    reason=None,
    prompt=TokenCount(11_000, "measured"),
    equal=TokenCount(10_000, "measured"),
    reused=9_990,
    evaluated=1_010,
    seconds=0.5,
)
BROKEN = replace(
    FINE, judgement=Judgement.BREAK, reused=20, evaluated=10_980, lost=TokenCount(9_980, "measured")
)
CHANGED = replace(
    BROKEN,
    reason=Reason.SYSTEM_CHANGED,
    equal=TokenCount(20, "estimated"),
    path="/system/0/text",
    byte=4,
    kind=ChangeKind.DATE,
    says="~0.2% shared, then date in /system/0/text",
)
UNMEASURED = replace(
    CHANGED, judgement=Judgement.UNKNOWN, reused=None, evaluated=None, seconds=None, lost=None
)


def text(found):
    """All that is said, without line breaks."""
    return " ".join(" ".join(lines(found)).split())


def test_a_turn_that_went_well():
    said = text(FINE)
    assert said.startswith("Request 7 claude, session 3f9a5e55, turn 4 compared with turn 3")
    assert "The prompts are equal for 10,000 of 11,000 tokens (90.9%): no break." in said
    assert said.endswith("The server reused 9,990 tokens and evaluated 1,010 in 0.5 s.")


def test_a_change_with_which_the_count_agrees():
    said = text(CHANGED)
    assert "equal for ≈20 of 11,000 tokens (0.2%), then differ in system[0]." in said
    assert "The server agrees: it reused 20 tokens" in said
    assert "where /system/0/text, byte 4 reason system_changed" in said
    assert "cost 9,980 tokens" in said


def test_a_change_with_which_the_count_does_not_agree():
    """A server may take another slot where little is shared."""
    found = replace(CHANGED, equal=TokenCount(2_600, "estimated"), reused=0, evaluated=11_000)
    said = text(found)
    assert "The server reused 0 tokens and evaluated 11,000" in said
    assert "agrees" not in said


def test_where_nothing_was_measured_a_change_is_named_and_its_cost_is_not():
    said = text(replace(UNMEASURED, advice=(Advice("a rule", "--enable ids"),)))
    assert "then differ in system[0]." in said
    assert "does not say what it reused, so the cost is not known." in said
    assert "reason system_changed" in said
    assert "What to do a rule --enable ids" in said
    assert "no break" not in said
    assert "cost 9" not in said


def test_where_nothing_was_measured_and_nothing_differs_no_verdict_is_given():
    said = text(replace(UNMEASURED, reason=None, path=None, byte=None, kind=None))
    assert "no break" not in said
    assert "the cost is not known" in said


@pytest.mark.parametrize(
    ("basis", "compared"), [(Basis.RENDERED, "prompts"), (Basis.COUNTED, "requests")]
)
@pytest.mark.parametrize("reason", [Reason.EVICTED, Reason.UNKNOWN, Reason.CHECKPOINT])
def test_what_the_server_did_is_said_with_why(reason, basis, compared):
    """Only what was rendered is called a prompt; "no break" is said of none."""
    said = text(replace(BROKEN, reason=reason, basis=basis, says="so many words"))
    assert f"The {compared} are equal for 10,000 of 11,000 tokens (90.9%)." in said
    assert f"in 0.5 s. {reason}: so many words." in said
    assert f"reason {reason}" in said
    assert "no break" not in said


def test_what_the_template_did_stands_in_a_place_of_the_request_but_at_no_byte_of_it():
    found = replace(BROKEN, reason=Reason.TEMPLATE_CHANGED, path="/messages/2/reasoning_content")
    said = text(replace(found, basis=Basis.RENDERED, says="thinking dropped by the template"))
    assert "template_changed: thinking dropped by the template." in said
    assert "where /messages/2/reasoning_content reason template_changed" in said


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            Reason.MODEL_CHANGED,
            "This turn asks for another model than the turn before, so nothing can be reused.",
        ),
        (Reason.PREVIOUS_NOT_FOUND, "This proxy has not seen the turn before."),
    ],
)
def test_a_reason_that_the_first_sentence_names_is_said_once(reason, said):
    found = text(replace(BROKEN, reason=reason, says="more words"))
    assert said in found
    assert "more words" not in found


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("judgement", Judgement)
@pytest.mark.parametrize("found", [FINE, CHANGED, UNMEASURED, replace(UNMEASURED, prompt=None)])
def test_it_is_never_over_all_nor_wider_than_a_terminal(found, judgement, reason):
    odd = replace(found, judgement=judgement, reason=reason, equal=TokenCount(12_000, "measured"))
    said = list(lines(replace(odd, says="words " * 40)))
    assert max(map(len, said)) <= 96
    assert "(109" not in " ".join(said)
    assert "None" not in " ".join(said)
