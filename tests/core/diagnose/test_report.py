"""The report on one turn, from a capture or as a proxy knows it."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from cacheproxy.cli.diagnosetext import lines
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
from cacheproxy.core.diagnose.report import ReportError, TurnReport, judged, report, report_captured
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.rules.rule import Rule
from cacheproxy.core.servers.profile import Profile, Reporting, ServerFacts
from tests.core.planting import anthropic, captured, chat, numbered, plant, request
from tests.record.recorded import but
from tests.record.test_jsonl import exchange

from .test_volatile import set_system

GROWING = [Usage(1000, 0), Usage(1100, 1000), Usage(1200, 1100)]
IDS = Rule("ids", "system", r"(?m)^id: (?P<volatile>\S+)", "0", default=False)
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


def with_nonce(body, turn):
    set_system(body, lambda text: f"id: {numbered('nonce', turn)}\n{text}")


def reported(bodies, index, *, usage=(), rules=()):
    records = captured(bodies)
    for number, said in enumerate(usage):
        records[number] = replace(records[number], usage=said)
    (lane,) = lanes_of(records)
    return report_captured(lane, index, rules)


@pytest.mark.parametrize(
    ("index", "usage", "judgement", "source"),
    [
        (0, GROWING, Judgement.COLD, "measured"),
        (2, GROWING, Judgement.OK, "measured"),
        (2, (), Judgement.UNKNOWN, "estimated"),  # it seems to be fine, but nobody can tell
    ],
)
def test_a_turn_that_extends_the_one_before(index, usage, judgement, source):
    found = reported(chat(3), index, usage=usage)
    assert (found.judgement, found.reason, found.path) == (judgement, None, None)
    assert (found.turn, found.number, found.client) == (index + 1, index + 1, "client")
    assert found.prompt.source == source
    assert index == 0 or found.equal.source == source
    assert found.advice == ()


def test_a_turn_after_a_compaction():
    """Nothing was lost, and there is nothing to do."""
    bodies = anthropic(4)
    bodies[3]["messages"] = [{"role": "user", "content": "In short."}]
    found = reported(bodies, 3)
    assert (found.judgement, found.reason, found.lost) == (Judgement.COMPACTED, None, None)
    assert found.path.startswith("/messages/0")
    assert found.advice == ()
    assert "replaced the history by a shorter one (a compaction): no break" in " ".join(
        map(str.strip, lines(found))
    )


def test_a_change_and_everything_about_it():
    usage = [Usage(1000, 0), Usage(1100, 700), Usage(1200, 760, 5, 9.0)]
    found = reported(plant(chat(4), with_nonce), 2, usage=usage, rules=[IDS])
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.SYSTEM_CHANGED)
    assert (found.prompt, found.lost) == (TokenCount(1200, "measured"), TokenCount(340, "measured"))
    assert (found.reused, found.evaluated, found.seconds) == (760, 440, 9.0)
    assert found.says.endswith("hex nonce in /messages/0/content")
    assert (found.path, found.byte) == ("/messages/0/content", 4)
    assert (found.kind, found.source, found.seen) == (ChangeKind.NONCE, "client", (3, 3))
    assert (found.rules, found.on) == (("ids",), ())
    assert found.excerpts.was == f"id: {numbered('nonce', 1)}"
    start, end = found.excerpts.marked
    assert found.excerpts.now[start:end] == numbered("nonce", 2)


@pytest.mark.parametrize(
    ("more", "on", "why"),
    [
        ({"rules": [IDS]}, (), "--enable ids"),
        ({"rules": [IDS], "active": ["ids"]}, ("ids",), "is on"),
        ({}, (), "cacheproxy diagnose --propose"),
        ({"captures": ["my own", "x"]}, (), "diagnose --propose --from 'my own' --from x"),
    ],
)
def test_a_rule_that_would_help_is_named_or_proposed(more, on, why):
    (lane,) = lanes_of(captured(plant(chat(4), with_nonce)))
    found = report_captured(lane, 2, **more)
    assert found.on == on
    assert why in found.advice[0].why


def test_an_eviction_by_a_server_that_is_known():
    """The advice is that of the server in the profile."""
    turn = replace(captured(anthropic(1))[0], profile=Profile(server=ServerFacts("vLLM")))
    assert report(turn, Verdict(Judgement.BREAK, Reason.EVICTED)).advice[0].do == "vLLM"


def test_a_difference_near_the_end_is_shown_though_it_is_no_break():
    def change(body, turn):
        body["messages"].append({"role": "user", "content": "a reminder that is always last"})

    found = reported(plant(chat(4), change), 3, usage=[*GROWING, Usage(1300, 1180)])
    assert found.judgement is Judgement.OK
    assert found.kind is ChangeKind.MOVED
    assert found.path.startswith("/messages/")


def test_a_text_that_lost_its_end_is_named_not_what_follows():
    def change(body, turn):
        body["messages"][0]["content"] += f"\n{'files ' * 400}" if turn == 0 else ""

    found = reported(plant(chat(2), change), 1)
    assert found.path == "/messages/0/content"
    assert found.kind is ChangeKind.REMOVED


def test_a_change_that_begins_with_a_new_line_can_be_seen():
    def change(body, turn):
        set_system(body, lambda text: text.replace("\n", "\nnew\n" if turn else "\n", 1))

    excerpts = reported(plant(chat(2), change), 1).excerpts
    assert excerpts.was != excerpts.now
    assert "\n" not in excerpts.was + excerpts.now


def test_from_a_running_proxy_without_bodies():
    """All it keeps of an exchange is the verdict, with its few words."""
    bare = replace(request(chat(1)[0]), body=b"")
    estimated, lost = TokenCount(400, "estimated"), TokenCount(600, "measured")
    words = "on 2026-11-20", "on 2026-11-21"
    where = Break("/system/0/text", 9, estimated, ChangeKind.DATE, *words)
    verdict = Verdict(Judgement.BREAK, Reason.SYSTEM_CHANGED, where, estimated, lost, 2.5)
    found = report(exchange(received=bare, sent=bare, reports=()), verdict, seen=(2, 61))
    assert (found.number, found.turn, found.session) == (812, 14, "3f9a-1111")
    assert found.excerpts.now == words[1]
    assert (found.kind, found.frequency, found.seen) == (
        ChangeKind.DATE,
        "changes once a day",
        (2, 61),
    )
    rule, nothing = found.advice
    assert (rule.do, rule.why) == ("a rule", "cacheproxy diagnose 812 --propose")
    assert nothing.do == "nothing"


@pytest.mark.parametrize("index", [0, 1, 2])
def test_it_survives_json(index):
    found = reported(plant(anthropic(3), with_nonce), index, rules=[IDS])
    assert TurnReport.from_json(json.loads(json.dumps(found.as_json()))) == found


@pytest.mark.parametrize("value", [None, [], {}, {"number": "x"}, "text"])
def test_what_is_no_report(value):
    with pytest.raises(ReportError):
        TurnReport.from_json(value)


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
        structs.replace(EVICTED, reason=Reason.MOVED, basis=Basis.TOLD, evidence=()),
        structs.replace(
            EVICTED, reason=Reason.CHECKPOINT, beneath=Reason.TEMPLATE_CHANGED, evidence=()
        ),
        structs.replace(
            EVICTED, reason=Reason.UNKNOWN, basis=None, evidence=(), ruled_out=("the moon",)
        ),
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
    verdict = structs.replace(EVICTED, reason=Reason.SYSTEM_CHANGED, where=where, evidence=())
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
    verdict = structs.replace(
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
