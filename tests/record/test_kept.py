"""What is kept of an exchange."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Judgement,
    Reason,
    Rewrite,
    Spared,
    TokenCount,
    Verdict,
)
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.core.servers.profile import Profile
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.record.exchange import Outcome
from cacheproxy.record.kept import record_of
from tests.observe.exchanges import body, exchange

PROFILE = Profile(order=PromptOrder.TOOLS_FIRST)


def test_figures_and_names_are_taken():
    sent = body("hello", model="qwen")
    report = RuleReport("stamp", (Edit("/system", "x", "why"),))
    idle = RuleReport("idle", (), "left out")
    record = record_of(
        exchange(sent, usage=Usage(100, 60, 7, 0.2, 0.3), reports=(report, idle), sent_after=0.01),
        served="qwen3",
    )
    assert (record["prompt"], record["reused"], record["evaluated"], record["output"]) == (
        100,
        60,
        40,
        7,
    )
    assert (record["model"], record["dialect"], record["client"], record["session"]) == (
        "qwen",
        "anthropic",
        "agent",
        "s",
    )
    assert record["rules"] == "stamp"
    assert record["served"] == "qwen3"
    assert record["added_us"] == 10_000


def test_nothing_of_the_content_is_kept():
    """Neither texts, nor headers, nor the query, nor what a verdict quotes."""
    canary = "canary-7f3d"
    known = Verdicts(Store())
    long = f"{canary} " * 400
    first = exchange(body(canary, long), usage=Usage(2000, 0, 5))
    known.judge(first, PROFILE)
    later = exchange(body(canary, "else " + long, canary), usage=Usage(2000, 800, 5))
    known.judge(later, PROFILE)
    judged = later.verdict
    assert judged.where is not None
    request = replace(
        later.received, target=f"/v1/messages?key={canary}", headers=((b"X", canary.encode()),)
    )
    record = record_of(replace(later, received=request, sent=request, verdict=judged, error=canary))
    assert record["place"]
    assert record["reason"] is Reason.MESSAGES_CHANGED
    for name, value in record.items():
        assert canary not in str(value), name


@pytest.mark.parametrize(
    ("status", "outcome", "failed"),
    [
        (200, Outcome.COMPLETE, False),
        (404, Outcome.COMPLETE, True),
        (None, Outcome.COMPLETE, True),
        (200, Outcome.UPSTREAM_FAILED, True),
        (400, Outcome.REFUSED, True),
        (200, Outcome.CLIENT_LEFT, False),
        (None, Outcome.CLIENT_LEFT, False),
    ],
)
def test_what_counts_as_an_error(status, outcome, failed):
    """A client that leaves has its own reasons."""
    sent = body("x")
    assert record_of(exchange(sent, status=status, outcome=outcome))["failed"] is failed


def test_a_large_body_that_nobody_read_is_not_read_for_its_model():
    """It would hold up the reactor."""
    large = exchange(body("x" * 100_000))
    assert record_of(large)["model"] is None
    assert large.sent.json is not None
    assert record_of(replace(large))["model"] == "m"


@pytest.mark.parametrize(("spared", "kept"), [((900, 4.5), (900, 4500)), ((900,), (900, None))])
def test_what_was_spared_comes_with_the_exchange(spared, kept):
    """Priced already: tokens and time go on as they are."""
    record = record_of(exchange(body("x"), spared=Spared(*spared)))
    assert (record["spared"], record["spared_ms"]) == kept


@pytest.mark.parametrize("outcome", [Outcome.COMPLETE, Outcome.UPSTREAM_FAILED])
def test_a_failed_request_is_no_turn_and_no_break(outcome):
    """An answer that was broken off, say; what was evaluated for it counts all the same."""
    status = 500 if outcome is Outcome.COMPLETE else 200
    broke = Verdict(Judgement.BREAK, Reason.EVICTED, lost=TokenCount(900, "measured"))
    each = exchange(
        body("x"),
        usage=Usage(1000, 100),
        outcome=outcome,
        status=status,
        turn=3,
        verdict=broke,
        spared=Spared(900, 1.0),
    )
    record = record_of(each)
    assert (record["failed"], record["turn"], record["reason"]) == (True, 0, None)
    assert (record["verdict"], record["spared"], record["lost"]) == (None, None, None)
    assert (record["prompt"], record["evaluated"]) == (1000, 900)


def test_what_the_template_did_stands_for_the_text_that_changed():
    """Where no text changed."""
    found = Verdict(Judgement.BREAK, Reason.TEMPLATE_CHANGED, rewrite=Rewrite.THINKING)
    assert record_of(exchange(body("x"), verdict=found))["shape"] == "thinking dropped"
    assert record_of(exchange(body("x"), verdict=Verdict(Judgement.OK)))["shape"] is None
