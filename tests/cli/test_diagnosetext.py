"""What ``cacheproxy diagnose`` says of a turn, in words (diagnosetext.txt)."""

from dataclasses import replace

import pytest

from cacheproxy.cli.diagnosetext import lines
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, TokenCount
from cacheproxy.core.diagnose.report import TurnReport
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.advice import Advice
from tests import transcript

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


def says(report, **more):
    return "\n".join(lines(replace(report, **more)))


def test_what_it_says():
    transcript.holds("diagnosetext.txt", globals() | {"Advice": Advice, "Basis": Basis})


@pytest.mark.parametrize("judgement", Judgement)
def test_it_is_never_over_all_nor_wider_than_a_terminal(judgement):
    for found in (FINE, CHANGED, UNMEASURED, replace(UNMEASURED, prompt=None)):
        for reason in Reason:
            odd = replace(found, judgement=judgement, reason=reason, says="words " * 40)
            said = list(lines(replace(odd, equal=TokenCount(12_000, "measured"))))
            assert max(map(len, said)) <= 96
            assert "(109" not in " ".join(said)
            assert "None" not in " ".join(said)
