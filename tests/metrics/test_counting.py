"""What is counted of an exchange."""

from dataclasses import replace
from pathlib import Path

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
from cacheproxy.web.monitoring import content
from tests import golden
from tests.metrics.builders import families, shown, value
from tests.metrics.theirs import Theirs
from tests.observe.exchanges import body, exchange

FILE = Path(__file__).with_name("counted.txt")
SAID = body("a", "b", model="qwen")
UP = "http://localhost:8080"
USAGE = Usage(1000, 900, 50)
BROKE = {
    "verdict": Verdict(Judgement.BREAK, Reason.SYSTEM_CHANGED, lost=TokenCount(900, "measured"))
}
LEFT = {"outcome": Outcome.CLIENT_LEFT, "status": None}
FAILED = {"outcome": Outcome.UPSTREAM_FAILED, "status": 502}
AT = {"usage": USAGE, "server": "big", "route": "work"}
EDITS = (Edit("/system", "x", "y"), Edit("/messages/0/content", "x", "y"))


@pytest.fixture
def metrics():
    return Metrics()


def counted(turns):
    """Count exchanges; return the page, without what is so at the moment of asking."""
    metrics = Metrics()
    for changes in turns:
        metrics.cacheproxy_exchange_finished([exchange(SAID, **changes)])
    found = families(metrics)
    found.standing.clear()
    lines = content(found).body.decode().replace("cacheproxy_", "").replace(UP, "UP").splitlines()
    return [line for line in lines if line[0] != "#" and "_bucket{" not in line]


CASES = {
    # reused and evaluated add up to the prompt, by client and by model
    "a turn": [{"usage": USAGE}],
    # prompt tokens are neither reused nor evaluated where the server does not say, or errs
    "reuse not told, and contradicted": [{"usage": Usage(1000)}, {"usage": Usage(1000, 90_000)}],
    # only answers that tell a time count: a token in a microsecond would be a million a second
    "the server's own times": [
        {"usage": USAGE},
        {"usage": Usage(1000, 990, 1, 0.5, 1e-6)},
        {"usage": Usage(1000, 900, 50, 0.5, 2.0)},
    ],
    "how requests end": [{}, {"status": 404}, FAILED, LEFT, {"outcome": Outcome.REFUSED}],
    "a break, and a side request that is none": [{**BROKE, "side": True}, BROKE],
    "every verdict": [{"verdict": Verdict(each)} for each in Judgement],
    # a counter never falls: what the proxy spared and what it cost, apart
    "what is due to the proxy": [
        {"spared": each, "verdict": Verdict(Judgement.OK)}
        for each in (Spared(800, 4.0), Spared(-500, -1.5), Spared(50))
    ],
    # what was evaluated for it counts, its verdict does not
    "an answer that was broken off": [BROKE | FAILED | {"usage": Usage(1000, 100)}],
    # a list of models in a millisecond must not hide turns that take a minute
    "times of turns and of the rest": [
        {"first_byte": 40.0, "seconds": 60.0, "sent_after": 0.002, "edited_after": 0.001},
        {"first_byte": 0.4, "seconds": 0.6, "sent_after": 0.002, "side": True},
        {"first_byte": None, "seconds": 0.001, "sent_after": None, "turn": 0},
    ],
    # only where there are several
    "what each upstream did for each route": [
        AT | {"was_at": "big2", "price": 0.25},
        {"usage": Usage(1000), "server": "big", "was_at": "big"},
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_counted(name):
    """Times are shown where they are what matters."""
    lines = counted(CASES[name])
    if not name.startswith("times"):
        lines = [line for line in lines if not line.startswith(("first_byte", "request_duration"))]
    golden.agrees(FILE, name, "\n".join(lines))


def test_no_page_is_kept_that_no_test_has():
    golden.complete(FILE, CASES)


def test_rules_by_requests_and_places(metrics):
    """Those that have not fired are there with 0, so that they can be found."""
    reports = (RuleReport("stamp", EDITS), RuleReport("broken", error="ValueError"))
    metrics.cacheproxy_exchange_finished([exchange(SAID, reports=reports)])
    said = shown(metrics, rules=("stamp", "idle"))
    assert value(said, "cacheproxy_rule_hits_total", rule="stamp") == 1
    assert value(said, "cacheproxy_rule_edits_total", rule="stamp") == 2
    assert value(said, "cacheproxy_rule_hits_total", rule="idle") == 0
    assert value(said, "cacheproxy_rule_hits_total", rule="broken") is None


def test_a_request_without_a_body_is_not_edited(metrics):
    """The nothing that it took would hide what the edits of others take."""
    turn = exchange(SAID, edited_after=0.0)
    for each, count in ((replace(turn, received=Request("GET", "/v1/models")), None), (turn, 1)):
        metrics.cacheproxy_exchange_finished([each])
        assert value(shown(metrics), "cacheproxy_edit_seconds_count") == count


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
