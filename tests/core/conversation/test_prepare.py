"""A request on its way up: what the rules that look at the turn before are shown."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.conversation.conversation import Conversation
from cacheproxy.core.conversation.lanes import Lane
from cacheproxy.core.conversation.prepare import Plan, prepare
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.fold import run


class Proxy:
    """What a proxy does to a request on its way up, with the rules of its own."""

    def __init__(self, rules=BUILT_IN):
        self.store = Store()
        self.rules = rules

    def __call__(self, tools: str, words: int = 1) -> str:
        """Send so many messages with tools named by letters; return the tools as sent."""
        texts = [
            {"role": ("user", "assistant")[number % 2], "content": f"said {number}"}
            for number in range(words)
        ]
        named = [{"name": name, "description": name * 9} for name in tools]
        body = json.dumps({"system": "You are.", "messages": texts, "tools": named}).encode()
        request = Request("POST", "/v1/messages", ((b"x-session-id", b"s"),), body)
        prepared = run(prepare(request, Plan(self.rules), self.store))
        self.place = self.store.begin(prepared.turn, prepared.request)
        self.store.end(prepared.session, self.place, None)
        return "".join(tool["name"] for tool in prepared.request.json["tools"])


def test_tools_that_come_late_are_put_last_and_stay_there():
    proxy = Proxy()
    sent = [proxy(tools, words) for words, tools in enumerate(("abcd", "abxcd", "abxcyd"), 1)]
    assert sent == ["abcd", "abcdx", "abcdxy"]
    assert proxy("abxcyd", 4) == "abcdxy"


def test_tools_that_come_back_stand_where_they_stood():
    """The server may still have the prompt with them: a heartbeat has fewer, a mode has others."""
    proxy = Proxy()
    sent = [proxy(tools, words) for words, tools in enumerate(("abcd", "acd", "abcd", "dca"), 1)]
    assert sent == ["abcd", "acd", "abcd", "acd"]
    assert proxy.place.lane == 0


def test_a_rule_that_is_off_does_nothing():
    proxy = Proxy(BUILT_IN[1:])
    assert [proxy("ab"), proxy("ba", 2)] == ["ab", "ba"]


def test_of_other_tools_only_the_last_few_requests_are_kept():
    """And they are counted in what the conversation takes."""
    proxy = Proxy()
    costs = []
    for number in range(12):
        proxy("abcdef" + "ghijklmnopqr"[number], number + 1)
        (known,) = proxy.store._known.values()
        costs.append(known.cost)
    assert isinstance(known, Conversation)
    (lane,) = known.lanes
    assert isinstance(lane, Lane)
    assert len(lane.others) == 3
    bodies = [len(other.body) for other in lane.others.values()]
    assert lane.cost >= sum(bodies) + len(lane.request.body)


CALLS = {
    "/v1/chat/completions": lambda arguments: [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ],
    "/v1/responses": lambda arguments: [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
    ],
}
FIRST, AGAIN, OTHER = '{"b": 1.0, "a": "é"}', '{"a":"\\u00e9","b":1}', '{"a":"e","b":1}'


@pytest.mark.parametrize("path", CALLS)
def test_a_call_that_is_spelled_anew_is_the_same_answer(path):
    """A client that names no session is known by its answers: GitHub Copilot, which is resumed."""
    store, sessions, sent = Store(), [], []
    turns = ((), (FIRST,), (AGAIN, "so"), (OTHER, "so"))
    for turn in turns:
        messages = [{"role": "user", "content": "go"}]
        for text in turn:
            messages += CALLS[path](text) if text != "so" else [{"role": "user", "content": "so"}]
        body = json.dumps({"input" if "responses" in path else "messages": messages}).encode()
        request = Request("POST", path, ((b"user-agent", b"OpenAI/JS 5.20.1"),), body)
        prepared = run(prepare(request, Plan(BUILT_IN), store))
        place = store.begin(prepared.turn, prepared.request)
        store.end(prepared.session, place, None)
        sessions.append(prepared.session.id)
        sent.append(json.dumps(prepared.request.json))
    assert sessions[0] == sessions[1] == sessions[2] != sessions[3]
    assert json.dumps(FIRST) in sent[1]
    assert json.dumps(FIRST) in sent[2]
    assert json.dumps(OTHER) in sent[3]
