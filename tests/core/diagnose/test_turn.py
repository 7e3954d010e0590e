"""The report on a captured turn: what was known when it happened, or what its bodies show."""

from dataclasses import replace

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
from cacheproxy.core.diagnose.conversations import lanes_of
from cacheproxy.core.diagnose.report import judged, report_captured
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.profile import Profile, Reporting
from tests.core.planting import anthropic, captured, chat, numbered, plant, request
from tests.record.recorded import but

from .test_report import with_nonce

PROFILE = Profile(order=PromptOrder.SYSTEM_FIRST)
COLD_AGAIN = [Usage(1000, 0), Usage(1100, 20, 5, 9.0)]
PATH = "/messages/0/content"
EVICTED = Verdict(
    Judgement.BREAK,
    Reason.EVICTED,
    expected=TokenCount(998, "measured"),
    lost=TokenCount(978, "measured"),
    basis=Basis.RENDERED,
    evidence=(Sign.OTHERS,),
)
"""As a running proxy found it, which saw another conversation."""


def recorded(bodies, verdict, *, usage=COLD_AGAIN, profile=PROFILE):
    """The report on the second of two turns, captured with its verdict."""
    one, two = captured(bodies)
    one = replace(one, usage=usage[0], profile=profile)
    two = replace(two, usage=usage[1], profile=profile, verdict=verdict)
    (lane,) = lanes_of([one, two])
    return report_captured(lane, 1)


@pytest.mark.parametrize(
    "verdict",
    [
        EVICTED,
        replace(EVICTED, reason=Reason.MOVED, basis=Basis.TOLD, evidence=()),
        replace(EVICTED, reason=Reason.CHECKPOINT, beneath=Reason.TEMPLATE_CHANGED, evidence=()),
        replace(EVICTED, reason=Reason.UNKNOWN, basis=None, evidence=(), ruled_out=("the moon",)),
        Verdict(Judgement.OK, expected=TokenCount(998, "measured"), lost=TokenCount(0, "measured")),
        Verdict(Judgement.COLD),
        Verdict(Judgement.COMPACTED, expected=TokenCount(400, "estimated")),
    ],
)
def test_what_was_found_when_it_happened_is_what_is_reported(verdict):
    """More was known then: what the server rendered, and what else it had to do."""
    found = recorded(chat(2), verdict)
    for name in ("judgement", "reason", "basis", "beneath", "evidence", "ruled_out"):
        assert getattr(found, name) == getattr(verdict, name)
    assert (found.equal, found.path) == (verdict.expected, None)


def test_what_a_recorded_verdict_does_not_quote_is_taken_from_the_bodies():
    """Captures keep no excerpts."""
    where = Break(PATH, 4, TokenCount(40, "measured"), ChangeKind.NONCE, "", "")
    verdict = replace(EVICTED, reason=Reason.SYSTEM_CHANGED, where=where, evidence=())
    found = recorded(plant(chat(2), with_nonce), verdict)
    assert (found.reason, found.path, found.equal) == ("system_changed", PATH, where.position)
    assert found.excerpts.was == f"id: {numbered('nonce', 0)}"
    assert found.excerpts.now == f"id: {numbered('nonce', 1)}"
    assert found.source == "client"


def test_nothing_is_quoted_that_stands_elsewhere():
    """The template took the thinking away: that is not where the requests part."""
    where = Break(
        "/messages/2/reasoning_content", 0, TokenCount(600, "measured"), ChangeKind.TEXT, "", ""
    )
    verdict = replace(
        EVICTED,
        reason=Reason.TEMPLATE_CHANGED,
        rewrite=Rewrite.THINKING,
        where=where,
        evidence=(),
    )
    found = recorded(plant(chat(2), with_nonce), verdict)
    assert (found.reason, found.path) == (Reason.TEMPLATE_CHANGED, where.path)
    assert found.excerpts is None


def test_where_the_requests_part_is_shown_though_it_broke_nothing():
    fine = Verdict(Judgement.OK, expected=TokenCount(1000, "measured"))
    found = recorded(plant(chat(2), with_nonce), fine)
    assert (found.judgement, found.reason, found.path) == (Judgement.OK, None, PATH)


def test_a_capture_of_an_older_version_is_judged_anew():
    """Its verdict was a guess: it said evicted wherever the requests agree."""
    found = recorded(chat(2), EVICTED, profile=None)
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.UNKNOWN)
    assert (found.basis, found.evidence) == (None, ())
    assert found.ruled_out == ("this request only appends to the one before",)
    found = recorded(plant(chat(2), with_nonce), EVICTED, profile=None)
    assert (found.reason, found.path) == (Reason.SYSTEM_CHANGED, PATH)


@pytest.mark.parametrize("change", [with_nonce, lambda body, turn: None])
@pytest.mark.parametrize("reused", range(0, 1100, 100))
@pytest.mark.parametrize("bodies", [chat(2), anthropic(2)])
def test_bodies_alone_are_no_evidence_of_an_eviction(bodies, reused, change):
    usage = [Usage(1000, 0, 10), Usage(1100, reused, 10)]
    found = recorded(plant(bodies, change), None, usage=usage)
    assert found.reason is not Reason.EVICTED
    assert not any("not restarted" in it or "conversation" in it for it in found.ruled_out)


@pytest.mark.parametrize(
    ("usage", "profile"),
    [(Usage(), None), (Usage(1100), PROFILE), (Usage(1100, 0), Profile(reporting=Reporting.NEVER))],
)
def test_where_nothing_was_measured_nothing_is_judged(usage, profile):
    bodies = plant(chat(2), with_nonce)
    found = recorded(bodies, None, usage=[Usage(), usage], profile=profile)
    assert (found.judgement, found.reason) == (Judgement.UNKNOWN, Reason.SYSTEM_CHANGED)
    assert (found.path, found.kind) == (PATH, ChangeKind.NONCE)
    assert found.advice[0].do == "a rule"


def test_the_order_is_that_of_the_server():
    """Tools that change stand behind a system text that has not, or before it."""
    one, two = captured(plant(anthropic(2), lambda body, turn: body["tools"][0].update(n=turn)))
    first, last = (
        judged(one, replace(two, profile=Profile(order=order))).expected.tokens
        for order in (PromptOrder.TOOLS_FIRST, PromptOrder.SYSTEM_FIRST)
    )
    assert first < last


def test_what_was_sent_is_compared_not_what_came():
    records = captured(plant(chat(2), with_nonce))
    sent = [replace(one, sent=request(body)) for one, body in zip(records, chat(2), strict=True)]
    verdict = judged(*sent)
    assert (verdict.reason, verdict.where) == (None, None)
    assert verdict.saved.tokens > 0


def test_bodies_that_cannot_be_read_are_not_judged():
    one, two = captured(chat(2))
    assert judged(one, but(two, body=b"{")).judgement is Judgement.UNKNOWN
    assert judged(but(one, body=b"{"), two).judgement is Judgement.UNKNOWN
