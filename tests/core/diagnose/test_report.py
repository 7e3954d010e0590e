"""The report on one turn, from a capture or as a proxy knows it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

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
from cacheproxy.core.diagnose.report import TurnReport, report, report_captured
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.kinds.profile import Profile, Reporting, ServerFacts
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.rules.rule import Rule
from tests import golden, transcript
from tests.core.planting import anthropic, captured, chat, numbered, plant, request
from tests.record.test_jsonl import exchange

from .test_volatile import set_system

FILE = Path(__file__).with_name("reports.txt")
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


def but_for(**changes):
    return structs.replace(EVICTED, **{"evidence": (), **changes})


def with_nonce(body, turn):
    set_system(body, lambda text: f"id: {numbered('nonce', turn)}\n{text}")


def reminded(body, turn):
    body["messages"].append({"role": "user", "content": "a reminder that is always last"})


def shortened(body, turn):
    body["messages"][0]["content"] += f"\n{'files ' * 400}" if turn == 0 else ""


def compacted(body, turn):
    if turn == 3:
        body["messages"] = [{"role": "user", "content": "In short."}]


def same(body, turn):
    pass


def turns(change=same, bodies=chat, *, count=4, usage=(), verdict=None, profile=None):
    """A conversation as it was captured; ``verdict``: on its last turn."""
    records = captured(plant(bodies(count), change))
    records = [replace(one, profile=profile) for one in records]
    for number, said in enumerate(usage):
        records[number] = replace(records[number], usage=said)
    return [*records[:-1], replace(records[-1], verdict=verdict)]


def reported(records, index=-1, rules=(), **more):
    (lane,) = lanes_of(records)
    return report_captured(lane, index % len(records), rules, **more)


def recorded(verdict, change=same, *, usage=COLD_AGAIN, profile=PROFILE, bodies=chat):
    """The report on the second of two turns, captured with its verdict."""
    return reported(turns(change, bodies, count=2, usage=usage, verdict=verdict, profile=profile))


def live():
    """From a running proxy: all it keeps of an exchange is the verdict, with its few words."""
    bare = replace(request(chat(1)[0]), body=b"")
    estimated, lost = TokenCount(400, "estimated"), TokenCount(600, "measured")
    words = "on 2026-11-20", "on 2026-11-21"
    where = Break("/system/0/text", 9, estimated, ChangeKind.DATE, *words)
    verdict = Verdict(Judgement.BREAK, Reason.SYSTEM_CHANGED, where, estimated, lost, 2.5)
    return report(exchange(received=bare, sent=bare, reports=()), verdict, seen=(2, 61))


def evicted_at(kind):
    turn = replace(captured(anthropic(1))[0], profile=Profile(server=ServerFacts(kind)))
    return report(turn, Verdict(Judgement.BREAK, Reason.EVICTED))


CHANGED = turns(with_nonce, usage=[*GROWING[:1], Usage(1100, 700), Usage(1200, 760, 5, 9.0)])
NONCE = Break(PATH, 4, TokenCount(40, "measured"), ChangeKind.NONCE, "", "")
THOUGHT = Break(
    "/messages/2/reasoning_content", 0, TokenCount(600, "measured"), ChangeKind.TEXT, "", ""
)
DROPPED = but_for(reason=Reason.TEMPLATE_CHANGED, rewrite=Rewrite.THINKING, where=THOUGHT)
CASES = {
    "a first turn": lambda: reported(turns(count=3, usage=GROWING), 0),
    "a turn that extends the one before": lambda: reported(turns(count=3, usage=GROWING)),
    "it seems to be fine, but nobody can tell": lambda: reported(turns(count=3)),
    "after a compaction there is nothing to do": lambda: reported(turns(compacted, anthropic)),
    "a change, and a rule that is off": lambda: reported(CHANGED, 2, [IDS]),
    "a change, and a rule that is on": lambda: reported(CHANGED, 2, [IDS], active=["ids"]),
    "a change, without a rule": lambda: reported(CHANGED, 2),
    "a change in captures": lambda: reported(CHANGED, 2, captures=["my own", "x"]),
    "from a running proxy, without bodies": live,
    "an eviction by a server that is known": lambda: evicted_at("vLLM"),
    # a difference near the end is shown though it is no break
    "a reminder that moves": lambda: reported(turns(reminded, usage=[*GROWING, Usage(1300, 1180)])),
    # it is named, and not what follows
    "a text that lost its end": lambda: reported(turns(shortened, count=2)),
    # what a recorded verdict does not quote is taken from the bodies: captures keep no excerpts
    "a verdict without a quotation": lambda: recorded(
        but_for(reason=Reason.SYSTEM_CHANGED, where=NONCE), with_nonce
    ),
    # that is not where the requests part
    "nothing is quoted that stands elsewhere": lambda: recorded(DROPPED, with_nonce),
    "where the requests part though it broke nothing": lambda: recorded(
        Verdict(Judgement.OK, expected=TokenCount(1000, "measured")), with_nonce
    ),
    # its verdict was a guess: it said evicted wherever the requests agree
    "a capture of an older version is judged anew": lambda: recorded(EVICTED, profile=None),
    "so is one of an older version with a change": lambda: recorded(
        EVICTED, with_nonce, profile=None
    ),
    "nothing was measured": lambda: recorded(
        None, with_nonce, usage=[Usage(), Usage(1100)], profile=PROFILE
    ),
    "what is told is a constant": lambda: recorded(
        None,
        with_nonce,
        usage=[Usage(), Usage(1100, 0)],
        profile=Profile(reporting=Reporting.NEVER),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_report(name):
    """All that is known of the turn; it survives JSON."""
    found = CASES[name]()
    data = found.as_json()
    assert TurnReport.from_json(json.loads(json.dumps(data))) == found
    shown = [f"{key}: {json.dumps(value)}" for key, value in data.items() if value not in NONE]
    golden.agrees(FILE, name, "\n".join(shown))


NONE = (None, [], "", {}, ())


def test_no_report_is_kept_that_no_test_has():
    golden.complete(FILE, CASES)


@pytest.mark.parametrize("change", [with_nonce, same])
@pytest.mark.parametrize("bodies", [chat, anthropic])
def test_bodies_alone_are_no_evidence_of_an_eviction(bodies, change):
    for reused in range(0, 1100, 100):
        usage = [Usage(1000, 0, 10), Usage(1100, reused, 10)]
        found = recorded(None, change, usage=usage, bodies=bodies)
        assert found.reason is not Reason.EVICTED
        assert not any("not restarted" in it or "conversation" in it for it in found.ruled_out)


def test_all_that_is_said():
    transcript.holds("report.txt", globals())
