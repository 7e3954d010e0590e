"""What is counted of an exchange."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, Spared, TokenCount, Verdict
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.metrics import Metrics
from cacheproxy.record.exchange import Outcome
from cacheproxy.record.metrics import COUNTED
from tests.metrics.builders import families, shown, value
from tests.metrics.theirs import Theirs
from tests.observe.exchanges import body, exchange

SAID = body("a", "b", model="qwen")
UP = "http://localhost:8080"


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def count(metrics):
    """Count an exchange; return what the page says then."""

    def count(**changes):
        metrics.cacheproxy_exchange_finished([exchange(SAID, **changes)])
        return shown(metrics)

    return count


def test_tokens_by_where_they_came_from(count):
    """Reused and evaluated add up to the prompt, by client and by model."""
    said = count(usage=Usage(1000, 900, 50))
    for source, tokens in (("reused", 900), ("evaluated", 100)):
        labels = {"upstream": UP, "source": source}
        assert value(said, "cacheproxy_prompt_tokens_total", client="agent", **labels) == tokens
        assert value(said, "cacheproxy_model_tokens_total", model="qwen", **labels) == tokens
    assert value(said, "cacheproxy_generated_tokens_total", client="agent") == 50
    assert value(said, "cacheproxy_model_tokens_total", source="generated") == 50


@pytest.mark.parametrize("usage", [Usage(1000), Usage(1000, 90_000)])
def test_a_server_that_does_not_say_what_it_reused_or_contradicts_itself(count, usage):
    """Its prompt tokens are neither reused nor evaluated."""
    said = count(usage=usage)
    assert value(said, "cacheproxy_prompt_tokens_total", source="unknown") == 1000
    assert value(said, "cacheproxy_prompt_tokens_total") == 1000
    assert value(said, "cacheproxy_generated_tokens_total") is None


def test_the_servers_own_times(count):
    """Only of answers that tell one: a token in a microsecond would be a million a second."""
    count(usage=Usage(1000, 0, 50))
    said = count(usage=Usage(1000, 990, 1, 0.5, 1e-6))
    assert value(said, "cacheproxy_timed_tokens_total") is None
    said = count(usage=Usage(1000, 900, 50, 0.5, 2.0))
    assert value(said, "cacheproxy_timed_tokens_total", phase="prompt") == 100
    assert value(said, "cacheproxy_timed_seconds_total", phase="prompt") == 0.5
    assert value(said, "cacheproxy_timed_tokens_total", phase="output") == 50
    assert value(said, "cacheproxy_timed_seconds_total", phase="output") == 2.0


@pytest.mark.parametrize(
    ("outcome", "status", "labels"),
    [
        (Outcome.COMPLETE, 200, {"outcome": "complete", "status": "2xx"}),
        (Outcome.COMPLETE, 404, {"outcome": "complete", "status": "4xx"}),
        (Outcome.UPSTREAM_FAILED, 502, {"outcome": "upstream_failed", "status": "5xx"}),
        (Outcome.CLIENT_LEFT, None, {"outcome": "client_left", "status": "none"}),
        (Outcome.REFUSED, 400, {"outcome": "refused", "status": "4xx"}),
    ],
)
def test_how_requests_end(count, outcome, status, labels):
    """Each is counted once, whatever became of it."""
    said = count(outcome=outcome, status=status)
    assert value(said, "cacheproxy_requests_total", **labels) == 1
    assert value(said, "cacheproxy_requests_total") == 1


def test_a_break_by_its_reason(count):
    """With what it cost; a side request is none, whatever its verdict."""
    broke = Verdict(Judgement.BREAK, Reason.SYSTEM_CHANGED, lost=TokenCount(900, "measured"))
    count(verdict=broke, side=True)
    said = count(verdict=broke)
    assert value(said, "cacheproxy_turns_total", verdict="break") == 1
    assert value(said, "cacheproxy_turns_total") == 1
    assert value(said, "cacheproxy_breaks_total", reason="system_changed", client="agent") == 1
    assert value(said, "cacheproxy_lost_tokens_total", reason="system_changed") == 900


@pytest.mark.parametrize("judgement", list(Judgement))
def test_every_verdict_has_a_word(count, judgement):
    said = count(verdict=Verdict(judgement))
    words = {"BREAK": "break", "-": "unknown"}
    assert value(said, "cacheproxy_turns_total", verdict=words.get(judgement, judgement)) == 1


def test_what_is_due_to_the_proxy(count):
    """Tokens spared, and those it cost, apart: a counter never falls. Seconds as they came."""
    judged = Verdict(Judgement.OK)
    said = count(verdict=judged, spared=Spared(800, 4.0))
    assert value(said, "cacheproxy_rule_tokens_total", effect="spared") == 800
    assert value(said, "cacheproxy_rule_seconds_total", effect="spared") == 4.0
    count(verdict=judged, spared=Spared(-500, -1.5))
    said = count(verdict=judged, spared=Spared(50))
    assert value(said, "cacheproxy_rule_tokens_total", effect="added") == 500
    assert value(said, "cacheproxy_rule_seconds_total", effect="added") == 1.5
    assert value(said, "cacheproxy_rule_tokens_total", effect="spared") == 850
    assert value(said, "cacheproxy_rule_seconds_total", effect="spared") == 4.0


def test_an_answer_that_was_broken_off_is_no_turn(count):
    """What was evaluated for it counts."""
    broke = Verdict(Judgement.BREAK, Reason.EVICTED, lost=TokenCount(900, "measured"))
    said = count(usage=Usage(1000, 100), verdict=broke, outcome=Outcome.UPSTREAM_FAILED)
    assert value(said, "cacheproxy_turns_total") is None
    assert value(said, "cacheproxy_breaks_total") is None
    assert value(said, "cacheproxy_prompt_tokens_total", source="evaluated") == 900


def test_rules_by_requests_and_places(metrics):
    """Those that have not fired are there with 0, so that they can be found."""
    edits = (Edit("/system", "x", "y"), Edit("/messages/0/content", "x", "y"))
    reports = (RuleReport("stamp", edits), RuleReport("broken", error="ValueError"))
    metrics.cacheproxy_exchange_finished([exchange(SAID, reports=reports)])
    said = shown(metrics, rules=("stamp", "idle"))
    assert value(said, "cacheproxy_rule_hits_total", rule="stamp") == 1
    assert value(said, "cacheproxy_rule_edits_total", rule="stamp") == 2
    assert value(said, "cacheproxy_rule_hits_total", rule="idle") == 0
    assert value(said, "cacheproxy_rule_hits_total", rule="broken") is None


def test_times_are_apart_for_turns_and_the_rest(count, metrics):
    """A list of models in a millisecond must not hide turns that take a minute."""
    count(first_byte=40.0, seconds=60.0, sent_after=0.002, edited_after=0.001)
    count(first_byte=0.4, seconds=0.6, sent_after=0.002, side=True)
    metrics.cacheproxy_exchange_finished(
        [exchange({}, turn=0, first_byte=None, seconds=0.001, sent_after=None)]
    )
    said = shown(metrics)
    name = "cacheproxy_first_byte_seconds"
    assert value(said, f"{name}_sum", request="turn") == 40.0
    assert value(said, f"{name}_bucket", request="turn", le="30.0") == 0
    assert value(said, f"{name}_bucket", request="turn", le="60.0") == 1
    assert value(said, f"{name}_count", request="other") is None
    assert value(said, "cacheproxy_request_duration_seconds_count") == 3
    assert value(said, "cacheproxy_added_latency_seconds_count") == 2
    assert value(said, "cacheproxy_edit_seconds_sum", upstream=UP) == 0.001


def test_a_request_without_a_body_is_not_edited(metrics):
    """The nothing that it took would hide what the edits of others take."""
    turn = exchange(SAID, edited_after=0.0)
    bare = replace(turn, received=Request("GET", "/v1/models"))
    metrics.cacheproxy_exchange_finished([bare])
    assert value(shown(metrics), "cacheproxy_edit_seconds_count") is None
    metrics.cacheproxy_exchange_finished([turn])
    assert value(shown(metrics), "cacheproxy_edit_seconds_count") == 1


TIMES = {row.name: row for row in COUNTED if row.buckets}
BOUNDS = [bound for row in TIMES.values() for bound in row.buckets]
SECONDS = st.floats(0, 1000) | st.sampled_from(BOUNDS)
MAYBE = st.none() | SECONDS
KINDS = {"turn": (1, False), "side": (1, True), "other": (0, False)}


@given(st.lists(st.tuples(st.sampled_from([*KINDS]), SECONDS, MAYBE, MAYBE, MAYBE), max_size=20))
def test_times_are_what_prometheus_client_would_say(counted):
    """Of the same seconds: each in the first bucket whose bound is no less."""
    metrics, theirs = Metrics(), Theirs()
    for kind, seconds, first, edited, sent in counted:
        turn, side = KINDS[kind]
        given = {"first_byte": first, "edited_after": edited, "sent_after": sent}
        metrics.cacheproxy_exchange_finished(
            [exchange(SAID, turn=turn, side=side, seconds=seconds, **given)]
        )
        for name, labels, amount in (
            ("request_duration", (UP, kind), seconds),
            ("first_byte", (UP, kind), first),
            ("edit", (UP,), edited),
            ("added_latency", (UP,), sent),
        ):
            if amount is not None:
                theirs.add(TIMES[f"cacheproxy_{name}_seconds"], labels, amount)
    assert [each for each in families(metrics).collect() if each.type == "histogram"] == [
        each for each in theirs.collect() if each.type == "histogram"
    ]


def test_a_key_that_a_request_carries_is_no_name(metrics):
    """Neither its client's nor its model's, though its shape says nothing."""
    key = "geheim4711geheim"
    turn = exchange(body("a", model=key), session="s", usage=Usage(9, 0, 1))
    carries = replace(turn.received, headers=((b"x-api-key", key.encode()),))
    turn = replace(turn, received=carries, sent=carries, session=Session(key, "s"))
    metrics.cacheproxy_exchange_finished([turn])
    assert "geheim" not in repr(shown(metrics))


def test_labels_are_bounded_however_many_names_there_are(metrics):
    """Models, clients, upstreams and rules by the hundred; nothing is lost in the sums."""
    for number in range(300):
        said = body("a", model=f"model-{number}")
        reports = (RuleReport(f"rule-{number}", (Edit("/system", "x", "y"),)),)
        metrics.cacheproxy_exchange_finished(
            [exchange(said, usage=Usage(10, 5, 1), reports=reports, upstream=f"http://u{number}")]
        )
        headers = ((b"User-Agent", b"agent%03d/1" % number),)
        got = Request("GET", f"/v1/u{number}", headers)
        listed = replace(exchange({}, turn=0), session=None, received=got, sent=got)
        metrics.cacheproxy_exchange_finished([listed])
    said = shown(metrics)
    assert len(said) < 2000
    assert value(said, "cacheproxy_prompt_tokens_total") == 3000
    assert value(said, "cacheproxy_model_tokens_total", model="other") > 0
    assert value(said, "cacheproxy_requests_total", client="other") > 0
    assert value(said, "cacheproxy_requests_total") == 600
    assert "model-299" not in repr(said)
    assert "/v1/u" not in repr(said)


def test_what_each_upstream_did_for_each_route(count):
    """Only where there are several: requests, tokens, price, and turns that moved there."""
    assert value(count(usage=Usage(1000, 900, 50)), "cacheproxy_route_requests_total") is None
    at = {"server": "big", "route": "work", "was_at": "big2", "price": 0.25}
    said = count(usage=Usage(1000, 900, 50), **at)
    labels = {"upstream": UP, "route": "work"}
    assert value(said, "cacheproxy_route_requests_total", **labels) == 1
    assert value(said, "cacheproxy_route_tokens_total", source="reused", **labels) == 900
    assert value(said, "cacheproxy_route_tokens_total", source="generated", **labels) == 50
    assert value(said, "cacheproxy_route_price_total", **labels) == 0.25
    assert value(said, "cacheproxy_moved_total", upstream=UP) == 1
    said = count(usage=Usage(1000), server="big", was_at="big")
    assert value(said, "cacheproxy_route_tokens_total", source="unknown", route="none") == 1000
    assert value(said, "cacheproxy_moved_total", upstream=UP) == 1
