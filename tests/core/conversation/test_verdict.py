"""What turns did not have to evaluate, thanks to the edits."""

import pytest

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Judgement,
    Reason,
    TokenCount,
    Verdict,
    spared_tokens,
)
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.prompt import PromptOrder
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


@pytest.mark.parametrize(
    ("stamps", "edited", "reused", "least", "most"),
    [
        (("cch=aaaaaaaaaa;", "cch=bbbbbbbbbb;"), True, 2010, 1500, 2010),  # but what is before it
        (("cch=aaaaaaaaaa;", "cch=aaaaaaaaaa;"), True, 2010, 0, 0),
        ((STAMP, STAMP), False, 60, 0, 0),
        ((STAMP, STAMP), False, 2050, 0, 0),  # more than the turn before, such as its answer
    ],
)
def test_a_stamp_made_constant_spares_what_it_would_have_broken(
    stamps, edited, reused, least, most
):
    known, spared = Verdicts(Store()), []
    for number, stamp in enumerate(stamps):
        texts = ("hello " * 300, "hi", "more", "yes")[: 1 + 2 * number]
        came = body(*texts, system=stamp + SYSTEM)
        sent = body(*texts, system=STAMP + SYSTEM) if edited else came
        usage = Usage(2100, reused, 10) if number else Usage(2000, 0, 10)
        finished = exchange(sent, came, usage=usage, turn=1 + number)
        assert known.judge(finished, PROFILE) is not None
        spared.append(spared_tokens(usage.reused, finished.verdict))
    assert spared[0] is None
    assert least <= spared[1] <= most
