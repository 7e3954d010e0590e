"""One line per exchange: figures and a verdict, and nothing of what was said."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.adapt.late import place
from cacheproxy.core.adapt.refusal import WITHHELD
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Basis,
    Break,
    Judgement,
    Reason,
    Sign,
    TokenCount,
    Verdict,
)
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.judge.advice import LEFT
from cacheproxy.core.kinds.placement import Late, alike
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.core.kinds.profile import Memory, Profile, ServerFacts
from cacheproxy.core.prompt.client import Client, Clients
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.observe.log import LogLine
from cacheproxy.record.exchange import Outcome
from cacheproxy.record.logline import lines
from tests import golden
from tests.core.late import body_of, system, user
from tests.observe import exchanges

FILE = Path(__file__).with_name("log_exchanges.txt")
SECRET = "kanarienvogel"
BODY = json.dumps(body_of([user(SECRET)]) | {"model": SECRET, "system": SECRET}).encode()
KEY = ((b"Authorization", SECRET.encode()),)
RECEIVED = Request("POST", f"/v1/messages?key={SECRET}", KEY, BODY)
LLAMA = {"response_headers": ((b"Server", b"llama.cpp"),)}
NOBODYS = {"turn": 0, "session": None}
BROKEN_OFF = {"status": 502, "outcome": Outcome.UPSTREAM_FAILED}
GONE = {"outcome": Outcome.CLIENT_LEFT}
EDITS = (Edit("/system/0/text", "x", "a nonce"), Edit("/messages/0/content", "y", "a date"))
TWO, ONE = RuleReport("billing", EDITS), RuleReport("date", EDITS[:1])
CLIENTS = Clients(
    [
        Client(
            "claude",
            has_setup=True,
            advice=((LEFT, "Claude Code", 'eval "$(cacheproxy env claude)" sets it'),),
        )
    ]
)
LATE = Request(
    "POST",
    "/v1/messages",
    (),
    json.dumps(body_of([user("hi"), system("x", n=1), system("")])).encode(),
)


def exchange(**changes):
    """A turn that went well, but for ``changes``."""
    fields = {
        "received": RECEIVED,
        "sent": RECEIVED,
        "session": Session("claude", "3f9a-1111"),
        "turn": 14,
        "number": 812,
        "verdict": Verdict(Judgement.OK),
        "usage": Usage(18_211, 17_928, 412, 0.5, 12.5),
        "first_byte": 0.94,
        "seconds": 13.4,
        "bytes_down": 4000,
    }
    return replace(exchanges.exchange({}), **fields | changes)


def placed(*more, joins):
    after, report = place(LATE, alike(Late.REFUSED, "test", joins=joins))
    return {"received": LATE, "sent": after, "reports": (report, *more)}


def target(path):
    return NOBODYS | {"received": Request("GET", path)}


def broke(reason, **more):
    usage = more.pop("usage", Usage(18_904, 2_611))
    return {"usage": usage, "verdict": Verdict(Judgement.BREAK, reason, **more)}


def cut(**more):
    whole = TokenCount(9_302, "measured")
    verdict = Verdict(Judgement.CUT, Reason.CUT, basis=Basis.COUNTED, whole=whole)
    return {"usage": Usage(4_096, 0), "verdict": verdict, **more}


def at(path, kind, tokens):
    return Break(path, 9204, TokenCount(tokens, "estimated"), kind, SECRET, SECRET)


DATE = at("/messages/0/content/0/text", ChangeKind.DATE, 2611)
RAM = TokenCount(18_400, "measured")
MOVED = {"server": "big2", "was_at": "big"}
OLLAMA = Profile(ServerFacts("Ollama"), memory=Memory(context=4_096))
CASES = {
    "a turn, of which the server tells all, or something, or nothing": [
        {},
        {"first_byte": None},
        {"usage": Usage()},
        {"usage": Usage(prompt=100)},
        {"usage": Usage(0, 0)},
        {"usage": Usage(10, 5, 7)},
        {"usage": Usage(10, 5, 7, None, 0.0)},
        {"session": None},
        {"verdict": Verdict(Judgement.COLD), "turn": 1},
        {"verdict": Verdict(Judgement.UNKNOWN)},
        {"verdict": None},
        {"side": True},
        GONE,
        GONE | {"status": None},
        BROKEN_OFF | {"error": "it broke off"},
        {"outcome": Outcome.REFUSED, "error": "too large"},
    ],
    "of several upstreams it says which, and what moving took": [
        {"server": "big", "was_at": "big"},
        MOVED,
        MOVED | broke(Reason.MOVED, lost=TokenCount(18_211, "measured")),
        MOVED | {"usage": Usage()},
    ],
    "a client that left before the first token: after how long, and how much was read": [
        GONE | {"first_byte": None, "usage": Usage(), **changes}
        for changes in (
            {"seconds": 300.4, "progress": Progress(57_600, 90_000)},
            {"seconds": 0.3},
            {"seconds": 300.4, "error": "cut off by the proxy"},
            {"seconds": 9.0, "turn": 0},
        )
    ],
    "after a minute or more it may have given up: what cures that": [
        GONE | {"first_byte": None, "usage": Usage(), **changes}
        for changes in (
            {"seconds": 120.0},
            {"seconds": 120.0, "session": Session("curl", "3f9a-1111")},
            {"seconds": 120.0, "error": "cut off by the proxy"},
            {"seconds": 30.0},
        )
    ],
    "a cut is said of side requests, too, and with the server's setting, if it is known": [
        cut(),
        cut(side=True),
        cut(profile=OLLAMA, **MOVED),
    ],
    "a request that is no turn": [
        {"turn": 0},
        NOBODYS | {"status": 404},
        NOBODYS | {"status": 401, "error": "no key"},
        GONE | {"turn": 0, "status": None, "seconds": 0.0123},
        NOBODYS | BROKEN_OFF | {"error": "down"},
        NOBODYS | {"received": Request("POST", "/v1/messages/count_tokens"), "status": 400},
    ],
    "a prompt that was turned down: by whom, and in which words": [
        {"turn": 0, **changes}
        for changes in (
            {"status": 500},
            {"status": 400, "error": "no such slot", **LLAMA},
            {"status": 404, "error": "File Not Found", **LLAMA},
            {"status": 422, "error": WITHHELD},
            BROKEN_OFF | {"error": "it is down"},
            {"status": 400, "reports": (TWO,)},
        )
    ],
    "a path without what may be a key, and never all of its 32 kilobytes": [
        target(f"/v1/models;key={SECRET}?key={SECRET}"),
        target(f"//me:{SECRET}@host/v1/models"),
        target("/v1/sk-ant-api03-7f3a9bcc41d0/models"),
        target("/" + "x" * 30_000),
    ],
    "edits by rule, none of one that failed, and late messages, however many edits one takes": [
        {"reports": (TWO, RuleReport("failed", error="KeyError"), ONE)},
        placed(joins=False),
        placed(joins=True),
        placed(ONE, joins=True),
    ],
    "what broke, by its shape and place, and how to learn more": [
        broke(Reason.MESSAGES_CHANGED, where=DATE),
        broke(Reason.EVICTED, expected=RAM, evidence=(Sign.OTHERS,), basis=Basis.RENDERED),
        broke(Reason.UNKNOWN, ruled_out=("the rendered prompts agree",)),
        # nothing was measured, so it is no break; but here is where to look, if it was one
        {
            "usage": Usage(18_904),
            "verdict": Verdict(
                Judgement.UNKNOWN, Reason.TOOLS_CHANGED, at("/tools/0", ChangeKind.ADDED, 40)
            ),
        },
        # the break that a restart of the proxy may cost is explained
        {"verdict": Verdict(Judgement.COLD, evidence=(Sign.BEGUN_ELSEWHERE,))},
    ],
}
VERBOSE = {
    "verbose: sizes, and each edit's path and reason": [
        {"reports": (TWO,)},
        {"sent": None},
        {"received": Request("GET", "/"), "sent": None},
        NOBODYS | {"received": Request("POST", "/v1/messages/count_tokens")},
    ]
}


@pytest.mark.parametrize(("name", "cases"), [*CASES.items(), *VERBOSE.items()])
def test_lines(name, cases):
    """As the log has them, but for the time of day; another proxy is in the commands."""
    told = {"verbose": name in VERBOSE, "proxy": " -P", "clients": CLIENTS}
    said = [lines(exchange(**changes), **told) for changes in cases]
    text = "\n".join(line for found in said for line in found)
    text = re.sub(r"(?m)^\d\d:\d\d:\d\d ", "", text)
    assert SECRET not in text
    golden.agrees(FILE, name, text)


def test_no_line_is_kept_that_no_test_has():
    golden.complete(FILE, [*CASES, *VERBOSE])


counts = st.none() | st.integers(0, 10**9)
seconds = st.none() | st.floats(0, 1e6)


@given(
    st.builds(Usage, counts, counts, counts, seconds, seconds),
    st.fixed_dictionaries(
        {
            "outcome": st.sampled_from(Outcome),
            "status": st.none() | st.integers(100, 999),
            "turn": st.integers(0, 1000),
            "side": st.booleans(),
            "first_byte": seconds,
        }
    ),
)
def test_every_exchange_has_a_line(usage, fields):
    (found,) = lines(exchange(usage=usage, **fields))
    assert found.isprintable()
    assert SECRET not in found


def test_lines_that_come_together_are_one_event(events):
    """As text of its own, in which braces mean nothing; none for a count, unless verbose."""
    paths = ["/{braces}/{0}", "/1", "/2"]
    seen = [exchange(received=Request("GET", path), turn=0) for path in paths]
    counting = exchange(received=Request("POST", "/v1/messages/count_tokens"), turn=0)
    for each in (seen, [counting]):
        LogLine(verbose=False).cacheproxy_exchange_finished(each)
    LogLine(verbose=True).cacheproxy_exchange_finished([counting])
    event, verbose = events
    assert verbose["text"].split()[2] == counting.received.path
    assert [text.split()[2] for text in event["text"].splitlines()] == paths
    assert event["log_format"] == "{text}"
