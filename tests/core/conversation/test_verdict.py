"""What turns did not have to evaluate, thanks to the edits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Judgement,
    Reason,
    TokenCount,
    Verdict,
    spared_tokens,
)
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.profile import Profile
from cacheproxy.observe.verdicts import Verdicts
from tests.observe.exchanges import SYSTEM, body, exchange

STAMP = "cch=0123456789;"
PROFILE = Profile(order=PromptOrder.TOOLS_FIRST)


def verdict(expected, unedited, reason=None):
    return Verdict(
        Judgement.OK,
        reason,
        expected=TokenCount(expected, "measured"),
        unedited=TokenCount(unedited, "estimated"),
    )


@pytest.mark.parametrize(
    ("reused", "with_edits", "without", "reason", "spared"),
    [
        (None, 1000, 10, None, None),  # the server does not say
        (1050, 1000, 10, None, 1040),  # the answer of the turn before would have been lost, too
        (1050, 1000, 1000, None, 0),  # the edits changed nothing of what two turns share
        (5, 1000, 10, Reason.EVICTED, 0),  # the server had dropped it all the same
        (300, 1000, 10, Reason.EVICTED, 290),
        (10, 10, 1000, Reason.SYSTEM_CHANGED, -990),  # the edits made them differ
        (10, 10, 1000, Reason.CHECKPOINT, 0),
        (10, 10, 1000, Reason.EVICTED, 0),  # it would not have been there without them either
        (980, 990, 1000, None, 0),  # counted in characters, so not exactly
    ],
)
def test_what_the_rules_spared(reused, with_edits, without, reason, spared):
    assert spared_tokens(reused, verdict(with_edits, without, reason)) == spared


def test_without_a_verdict_nobody_knows_what_was_spared():
    assert spared_tokens(10, None) is None
    assert spared_tokens(10, Verdict(Judgement.COLD)) is None


def judged(pairs):
    """What each turn spared of a session whose turns came and were sent as in ``pairs``."""
    known = Verdicts(Store())
    for number, (came, sent, usage) in enumerate(pairs, 1):
        finished = exchange(sent, came, usage=usage, turn=number)
        assert known.judge(finished, PROFILE) is not None
        yield spared_tokens(usage.reused, finished.verdict)


def turns(stamps, *, edited):
    """Two turns whose system begins with a stamp, made constant if ``edited``."""
    for number, stamp in enumerate(stamps):
        texts = ("hello " * 300, "hi", "more", "yes")[: 1 + 2 * number]
        came = body(*texts, system=stamp + SYSTEM)
        sent = body(*texts, system=STAMP + SYSTEM) if edited else came
        usage = Usage(2000, 0, 10) if number == 0 else Usage(2100, 2010 if edited else 60, 10)
        yield came, sent, usage


def test_a_changing_stamp_made_constant_spares_all_but_what_stands_before_it():
    first, second = judged(turns(("cch=aaaaaaaaaa;", "cch=bbbbbbbbbb;"), edited=True))
    assert first is None
    assert 1500 < second < 2010


def test_a_constant_stamp_made_constant_spares_nothing():
    _, second = judged(turns(("cch=aaaaaaaaaa;", "cch=aaaaaaaaaa;"), edited=True))
    assert second == 0


def test_without_edits_nothing_is_spared():
    """Also where the server reuses more than the turn before, such as its answer."""
    _, second = judged(
        (came, sent, replace(usage, reused=2050) if usage.reused else usage)
        for came, sent, usage in turns((STAMP, STAMP), edited=False)
    )
    assert second == 0
