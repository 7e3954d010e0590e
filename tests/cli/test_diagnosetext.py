"""What ``cacheproxy diagnose`` says of a turn, in words (diagnosetext.txt)."""

from dataclasses import replace
from pathlib import Path

import pytest

from cacheproxy.cli.diagnosetext import lines
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, TokenCount
from cacheproxy.core.diagnose.report import TurnReport
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.advice import Advice
from tests import golden

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
REPORTS = {
    "a turn that went well": FINE,
    "a change, and the count agrees": CHANGED,
    "a change, and another slot": replace(
        CHANGED, equal=TokenCount(2_600, "estimated"), reused=0, evaluated=11_000
    ),
    "a change, not measured": replace(UNMEASURED, advice=(Advice("a rule", "--enable ids"),)),
    "no change, not measured": replace(UNMEASURED, reason=None, path=None, byte=None, kind=None),
    **{
        f"{reason}, {basis}": replace(BROKEN, reason=reason, basis=basis, says="so many words")
        for reason in (Reason.EVICTED, Reason.UNKNOWN, Reason.CHECKPOINT)
        for basis in (Basis.RENDERED, Basis.COUNTED)
    },
    "what the template did": replace(
        BROKEN,
        reason=Reason.TEMPLATE_CHANGED,
        path="/messages/2/reasoning_content",
        basis=Basis.RENDERED,
        says="thinking dropped by the template",
    ),
    "a cut": replace(BROKEN, judgement=Judgement.CUT, reason=Reason.CUT, says="so many words"),
    "a cut first turn, not measured": replace(
        UNMEASURED,
        judgement=Judgement.CUT,
        reason=Reason.CUT,
        equal=None,
        path=None,
        byte=None,
        kind=None,
        says="so many words",
    ),
    "another model": replace(BROKEN, reason=Reason.MODEL_CHANGED, says="more words"),
    "not seen": replace(BROKEN, reason=Reason.PREVIOUS_NOT_FOUND, says="more words"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_what_it_says(name):
    """Only what was rendered is called a prompt; without a count no verdict is given."""
    text = "\n".join(lines(REPORTS[name]))
    golden.agrees(Path(__file__).with_name("diagnosetext.txt"), name, text)


@pytest.mark.parametrize("judgement", Judgement)
def test_it_is_never_over_all_nor_wider_than_a_terminal(judgement):
    for found in (FINE, CHANGED, UNMEASURED, replace(UNMEASURED, prompt=None)):
        for reason in Reason:
            odd = replace(found, judgement=judgement, reason=reason, says="words " * 40)
            said = list(lines(replace(odd, equal=TokenCount(12_000, "measured"))))
            assert max(map(len, said)) <= 96
            assert "(109" not in " ".join(said)
            assert "None" not in " ".join(said)
