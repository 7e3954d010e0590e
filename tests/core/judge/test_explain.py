"""Why a turn broke, in words."""

from pathlib import Path

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Basis,
    Break,
    Judgement,
    Reason,
    Rewrite,
    Sign,
    TokenCount,
    Verdict,
)
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.explain import PHRASES, said_of, share_in_words
from tests import golden

FILE = Path(__file__).with_name("sentences.txt")
MEASURED = TokenCount(4_000, "measured")
ESTIMATED = TokenCount(4_000, "estimated")
RENDERED = {"expected": MEASURED, "basis": Basis.RENDERED}
THOUGHT = "/messages/4/content/0/thinking"
NO_USAGE = Usage()


def broke(reason, reused=None, where=None, kind=ChangeKind.TEXT, position=MEASURED, **more):
    """A break, and what was reused of 10,000 tokens."""
    place = None if where is None else Break(where, 0, position, kind, "", "")
    usage = NO_USAGE if reused is None else Usage(10_000, reused)
    return Verdict(Judgement.BREAK, reason, place, **more), usage


CASES = (
    broke(Reason.SYSTEM_CHANGED, 3_990, "/system/0/text", ChangeKind.DATE, ESTIMATED),
    broke(Reason.TOOLS_CHANGED, 3_990, "/tools/3", ChangeKind.REMOVED),
    broke(Reason.MESSAGES_CHANGED),
    broke(Reason.TEMPLATE_CHANGED, 3_990, THOUGHT, rewrite=Rewrite.THINKING),
    broke(Reason.TEMPLATE_CHANGED, 60, expected=MEASURED, rewrite=Rewrite.CLOCK),
    broke(Reason.TEMPLATE_CHANGED),
    broke(Reason.CHECKPOINT, 1_000, **RENDERED),
    broke(
        Reason.CHECKPOINT,
        1_000,
        "/messages/2/content",
        position=ESTIMATED,
        beneath=Reason.MESSAGES_CHANGED,
    ),
    broke(
        Reason.CHECKPOINT,
        1_000,
        rewrite=Rewrite.HOISTED,
        beneath=Reason.TEMPLATE_CHANGED,
        **RENDERED,
    ),
    broke(Reason.EVICTED, 20, expected=MEASURED, evidence=(Sign.RESTARTED,)),
    broke(Reason.EVICTED, evidence=(Sign.OTHERS, Sign.SLOTS)),
    broke(Reason.UNKNOWN),
    broke(Reason.UNKNOWN, ruled_out=("the rendered prompts agree", "no restart")),
    broke(Reason.NOT_CACHED),
    broke(Reason.CUT, 0, whole=TokenCount(12_000, "measured")),
    broke(Reason.CUT, 0, whole=TokenCount(12_000, "estimated")),
    broke(Reason.CUT, 0),
)


def test_a_verdict_in_a_sentence():
    """Nothing where nothing broke."""
    golden.agrees(FILE, "breaks", "\n".join(said_of(*case) for case in CASES))
    golden.agrees(FILE, "phrases", "\n".join(f"{name}: {PHRASES[name]}" for name in Reason))
    assert said_of(Verdict(Judgement.OK), Usage(10_000, 9_000)) == ""


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence_and_a_short_phrase(reason):
    """Whatever is known; no more than all is ever shared."""
    for beneath in (None, Reason.SYSTEM_CHANGED, Reason.TEMPLATE_CHANGED):
        for usage in (NO_USAGE, Usage(0), Usage(3_999)):
            verdict, _ = broke(reason, beneath=beneath, expected=MEASURED)
            said = said_of(verdict, usage)
            assert said
            assert "None" not in said
            assert "shared" not in said or "100.0% shared" in said
            assert not said.endswith(".")
    assert 10 < len(PHRASES[reason]) < 60
    assert len(set(PHRASES.values())) == len(Reason)


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0.0 %"), (0.0004, "less than 0.1 %"), (0.004, "0.4 %"), (1, "100.0 %")],
)
def test_little_is_not_nothing(share, words):
    assert share_in_words(share) == words
