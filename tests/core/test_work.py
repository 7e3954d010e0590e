"""How much work a turn is, counted and not timed: characters scanned, and calls made."""

from __future__ import annotations

import json
import sys

import pytest

from cacheproxy.core.conversation.divergence import Kinship
from cacheproxy.core.conversation.lanes import Lane, find_lane
from cacheproxy.core.document import reader as jsonreader
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CodeRule, quick
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.rule import Rule

STAMP = Rule("stamp", "system-head", r"\Astamp=(?P<volatile>\d+)", "0", literals=("stamp=",))
ABSENT = Rule("absent", "user", "nowhere", "", literals=("nowhere", "neither"))


def body_of(turn: int) -> bytes:
    """A conversation of ``turn`` turns, with a stamp that each of them writes anew."""
    messages = []
    for number in range(turn):
        messages.append({"role": "user", "content": f"question {number} " * 20})
        blocks = [{"type": "text", "text": f"änswer {number} " * 20}]
        messages.append({"role": "assistant", "content": blocks})
    system = [{"type": "text", "text": f"stamp={turn}"}, {"type": "text", "text": "You are. " * 99}]
    tools = [{"name": f"tool{number}", "description": "does it " * 20} for number in range(30)]
    body = {"model": "m", "messages": messages, "system": system, "tools": tools}
    return json.dumps(body, ensure_ascii=False).encode()


class Scanner:
    """Counts what goes to the C scanner."""

    def __init__(self):
        self.characters = 0
        self._scan = jsonreader._scan

    def __call__(self, text, start):
        value, end = self._scan(text, start)
        self.characters += end - start
        return value, end


@pytest.fixture
def scanner(monkeypatch):
    scanner = Scanner()
    monkeypatch.setattr(jsonreader, "_scan", scanner)
    return scanner


class Conversation:
    """A session's turns, each read, edited and compared as the proxy does it."""

    def __init__(self):
        self.memo = Memo()
        self.lanes = []

    def turn(self, body: bytes) -> Request:
        request = Request("POST", "/v1/messages", (), body, self.memo)
        sent = normalize(request, (STAMP, ABSENT)).request
        prompt = prompt_of(sent)
        assert prompt is not None
        prompt_of(request)
        kin = Kinship(sent, prompt)
        find_lane(self.lanes, kin)
        for lane in self.lanes:
            assert kin.shared(lane.plain) == len(lane.plain.made.run.pieces)
        self.lanes = [Lane(0, sent, prompt, prompt, 1)]
        assert (prompt.chars, prompt.cost) > (0, 0)
        return sent


def calls_of(work) -> int:
    """How many functions ``work`` calls, in Python and in C."""
    count = 0

    def see(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_turn_scans_what_is_new_in_it_and_what_was_edited(scanner):
    """Not the conversation: neither as it came, nor as it is sent."""
    conversation = Conversation()
    conversation.turn(body_of(200))
    cold = scanner.characters
    assert cold < 1.2 * len(body_of(200).decode())
    scanner.characters = 0
    sent = conversation.turn(body_of(201))
    new = len(body_of(201)) - len(body_of(200))
    assert b"stamp=0" in sent.body
    assert scanner.characters < new + 200
    assert sent.json == json.loads(sent.body)


def test_a_turn_costs_the_same_calls_however_long_the_conversation_is(scanner):
    """And the same characters; the first one costs what it is long."""
    warm, cold, scanned = {}, {}, {}
    for turns in (1, 100, 500):
        conversation = Conversation()
        one, other = body_of(turns), body_of(turns + 1)
        conversation.turn(one)
        fresh = Conversation()
        cold[turns] = calls_of(lambda fresh=fresh, one=one: fresh.turn(one))
        scanner.characters = 0
        warm[turns] = calls_of(lambda known=conversation, other=other: known.turn(other))
        scanned[turns] = scanner.characters
    assert max(warm.values()) < 1.2 * min(warm.values())
    assert max(scanned.values()) < 1.2 * min(scanned.values())
    assert cold[500] < 6 * cold[100]


def test_a_body_without_the_literals_is_not_read(scanner):
    """Nor is it where our own rule says that it has nothing to do."""

    def find(request, _previous):
        return [] if "nothing" not in request.literals else [Edit("/model", "x", "")]

    request = Request("POST", "/v1/messages", (), body_of(3).replace(b"stamp", b"stump"))
    rules = (STAMP, ABSENT, CodeRule("own", "", quick(find)))
    assert normalize(request, rules).request is request
    assert scanner.characters == 0
    assert not request.is_read


def test_documents_of_one_conversation_share_their_values():
    """Five hundred turns hold little more than the last one."""
    memo = Memo()
    document = Document(body_of(1), memo)
    for turn in range(2, 100):
        before, document = document, Document(body_of(turn), memo)
        ours, theirs = document.value["messages"], before.value["messages"]
        assert all(one is other for one, other in zip(ours, theirs, strict=False))
        assert document.value["tools"] is before.value["tools"]
