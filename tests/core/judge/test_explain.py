"""Why a turn broke, in words."""

from __future__ import annotations

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

MEASURED = TokenCount(4_000, "measured")
ESTIMATED = TokenCount(4_000, "estimated")
THOUGHT = "/messages/4/content/0/thinking"
NO_USAGE = Usage()


def broke(reason, **more):
    return Verdict(Judgement.BREAK, reason, **more)


def at(path, kind=ChangeKind.TEXT, position=MEASURED):
    return Break(path, 0, position, kind, "", "")


def left(reused):
    return Usage(10_000, reused)


@pytest.mark.parametrize(
    ("verdict", "usage", "sentence"),
    [
        (
            broke(Reason.SYSTEM_CHANGED, where=at("/system/0/text", ChangeKind.DATE, ESTIMATED)),
            left(3_990),
            "~40.0% shared, then date in /system/0/text",
        ),
        (
            broke(Reason.TOOLS_CHANGED, where=at("/tools/3", ChangeKind.REMOVED)),
            left(3_990),
            "40.0% shared, then removed in /tools/3",
        ),
        (broke(Reason.MESSAGES_CHANGED), NO_USAGE, "changed text in the prompt"),
        (
            broke(Reason.TEMPLATE_CHANGED, where=at(THOUGHT), rewrite=Rewrite.THINKING),
            left(3_990),
            f"40.0% shared, then thinking dropped by the template in {THOUGHT}",
        ),
        (
            broke(Reason.TEMPLATE_CHANGED, expected=MEASURED, rewrite=Rewrite.CLOCK),
            left(60),
            "40.0% shared, then clock in the template moved on",
        ),
        (broke(Reason.TEMPLATE_CHANGED), NO_USAGE, "rendered anew by the template"),
        (
            broke(Reason.CHECKPOINT, expected=MEASURED, basis=Basis.RENDERED),
            left(1_000),
            "the server could only go back to 1,000 of 4,000 tokens that both prompts share",
        ),
        (
            broke(
                Reason.CHECKPOINT,
                where=at("/messages/2/content", position=ESTIMATED),
                beneath=Reason.MESSAGES_CHANGED,
            ),
            left(1_000),
            (
                "the server could only go back to 1,000 of ~4,000 tokens that both requests share "
                "(messages_changed: changed text in /messages/2/content)"
            ),
        ),
        (
            broke(
                Reason.CHECKPOINT,
                expected=MEASURED,
                basis=Basis.RENDERED,
                rewrite=Rewrite.HOISTED,
                beneath=Reason.TEMPLATE_CHANGED,
            ),
            left(1_000),
            (
                "the server could only go back to 1,000 of 4,000 tokens that both prompts share "
                "(template_changed: system message hoisted by the template)"
            ),
        ),
        (
            broke(Reason.EVICTED, expected=MEASURED, evidence=(Sign.RESTARTED,)),
            left(20),
            (
                "the server still had 20 of 4,000 tokens that both requests share: the server was "
                "restarted"
            ),
        ),
        (
            broke(Reason.EVICTED, evidence=(Sign.OTHERS, Sign.SLOTS)),
            NO_USAGE,
            (
                "the server still had 0 of the tokens that both requests share: another "
                "conversation had its place meanwhile, no slot held it any more"
            ),
        ),
        (broke(Reason.UNKNOWN), NO_USAGE, "no cause found"),
        (
            broke(Reason.UNKNOWN, ruled_out=("the rendered prompts agree", "no restart")),
            NO_USAGE,
            "no cause found (ruled out: the rendered prompts agree; no restart)",
        ),
        (broke(Reason.NOT_CACHED), NO_USAGE, "the server reuses nothing: its prompt cache is off"),
        (Verdict(Judgement.OK), left(9_000), ""),
    ],
)
def test_a_verdict_in_a_sentence(verdict, usage, sentence):
    """Nothing where nothing broke."""
    assert said_of(verdict, usage) == sentence


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence_and_a_short_phrase(reason):
    """Whatever is known; no more than all is ever shared."""
    for beneath in (None, Reason.SYSTEM_CHANGED, Reason.TEMPLATE_CHANGED):
        for usage in (NO_USAGE, Usage(0), Usage(3_999)):
            said = said_of(broke(reason, beneath=beneath, expected=MEASURED), usage)
            assert said
            assert "None" not in said
            assert "shared" not in said or "100.0% shared" in said
            assert not said.endswith(".")
    assert 10 < len(PHRASES[reason]) < 60
    assert PHRASES[reason][0].isupper()
    assert len(set(PHRASES.values())) == len(Reason)


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0.0 %"), (0.0004, "less than 0.1 %"), (0.004, "0.4 %"), (1, "100.0 %")],
)
def test_little_is_not_nothing(share, words):
    assert share_in_words(share) == words
