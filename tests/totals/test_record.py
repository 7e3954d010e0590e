"""What is kept of an exchange, and what its rules spared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.core.edits import Edit
from cacheproxy.core.exchange import Outcome
from cacheproxy.core.normalize import Report
from cacheproxy.core.prompt import Order
from cacheproxy.core.usage import Usage
from cacheproxy.core.verdict import Count, Judgement, Reason, Verdict
from cacheproxy.observe.known import KnownPrompts
from cacheproxy.totals.record import record_of, spared_by_rules
from tests.observe.exchanges import SYSTEM, body, exchange

STAMP = "cch=0123456789;"


def verdict(expected, unedited, reason=None, judgement=Judgement.OK):
    return Verdict(
        judgement,
        reason,
        expected=Count(expected, "measured"),
        unedited=Count(unedited, "estimated"),
    )


def test_figures_and_names_are_taken():
    sent = body("hello", model="qwen")
    report = Report("stamp", (Edit("/system", "x", "why"),))
    idle = Report("idle", (), "left out")
    record = record_of(
        exchange(sent, usage=Usage(100, 60, 7, 0.2, 0.3), reports=(report, idle), sent_after=0.01),
        now=50.0,
    )
    assert (record.prompt, record.reused, record.evaluated, record.output) == (100, 60, 40, 7)
    assert (record.model, record.dialect, record.client, record.session) == (
        "qwen",
        "anthropic",
        "agent",
        "s",
    )
    assert record.rules == "stamp"
    assert record.began == 49.0
    assert record.added == 0.01


def test_nothing_of_the_content_is_kept():
    """Neither texts, nor headers, nor the query, nor what a verdict quotes."""
    canary = "canary-7f3d"
    known = KnownPrompts()
    long = f"{canary} " * 400
    first = exchange(body(canary, long), usage=Usage(2000, 0, 5))
    known.judge(first, Order.TOOLS_FIRST)
    later = exchange(body(canary, "else " + long, canary), usage=Usage(2000, 800, 5))
    judged, _ = known.judge(later, Order.TOOLS_FIRST)
    assert judged.where is not None
    request = replace(
        later.received, target=f"/v1/messages?key={canary}", headers=((b"X", canary.encode()),)
    )
    record = record_of(
        replace(later, received=request, sent=request, verdict=judged, error=canary), 1.0
    )
    assert record.place
    assert record.reason is Reason.MESSAGES_CHANGED
    for name, value in record._asdict().items():
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
    assert record_of(exchange(sent, status=status, outcome=outcome), 1.0).failed is failed


def test_names_of_clients_are_short():
    record = record_of(exchange(body("x", model="m" * 10_000)), 1.0)
    assert len(record.model) == 120


def test_a_large_body_that_nobody_read_is_not_read_for_its_model():
    """It would hold up the reactor."""
    large = exchange(body("x" * 100_000))
    assert record_of(large, 1.0).model is None
    assert large.sent.json is not None
    assert record_of(large, 1.0).model == "m"


@pytest.mark.parametrize(
    ("reused", "with_edits", "without", "reason", "spared"),
    [
        (None, 1000, 10, None, None),  # the server does not say
        (1050, 1000, 10, None, 1040),  # the answer of the turn before would have been lost, too
        (1050, 1000, 1000, None, 0),  # the edits changed nothing of what two turns share
        (5, 1000, 10, Reason.EVICTED, 0),  # the server had dropped it all the same
        (300, 1000, 10, Reason.EVICTED, 290),
        (10, 10, 1000, Reason.SYSTEM_CHANGED, -990),  # the edits made them differ
        (10, 10, 1000, Reason.EVICTED, 0),  # it would not have been there without them either
        (980, 990, 1000, None, 0),  # counted in characters, so not exactly
    ],
)
def test_what_the_rules_spared(reused, with_edits, without, reason, spared):
    assert spared_by_rules(reused, verdict(with_edits, without, reason)) == spared


def test_without_a_verdict_nobody_knows_what_was_spared():
    assert spared_by_rules(10, None) is None
    assert spared_by_rules(10, Verdict(Judgement.COLD)) is None


def judged(pairs):
    """The records of a session whose turns came and were sent as in ``pairs``."""
    known = KnownPrompts()
    for number, (came, sent, usage) in enumerate(pairs, 1):
        finished = exchange(sent, came, usage=usage, turn=number)
        found, _ = known.judge(finished, Order.TOOLS_FIRST)
        yield record_of(replace(finished, verdict=found), float(number))


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
    assert first.spared is None
    assert 1500 < second.spared < 2010


def test_a_constant_stamp_made_constant_spares_nothing():
    _, second = judged(turns(("cch=aaaaaaaaaa;", "cch=aaaaaaaaaa;"), edited=True))
    assert second.spared == 0


def test_without_edits_nothing_is_spared():
    """Also where the server reuses more than the turn before, such as its answer."""
    _, second = judged(
        (came, sent, replace(usage, reused=2050) if usage.reused else usage)
        for came, sent, usage in turns((STAMP, STAMP), edited=False)
    )
    assert second.spared == 0
