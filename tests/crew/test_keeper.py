"""The keeper's answers to its workers, over real lines and without processes."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.core.failures import Failures
from cacheproxy.core.request import Request
from cacheproxy.core.session import Session
from cacheproxy.crew.asking import AskedMemory, AskedSlots, AskedSpellings
from cacheproxy.crew.keeper import Crew
from cacheproxy.crew.line import Line
from cacheproxy.crew.wire import Forget, FromKeeper, FromWorker, Standing
from cacheproxy.proxy.memory import SessionMemory
from cacheproxy.translate.messages import Spellings

from .test_line import Reactor

SESSION = Session("claude", "s1")


def request(text, tools=()):
    import json

    body = {"model": "m", "tools": [{"name": name} for name in tools], "system": text}
    body["messages"] = []
    return Request("POST", "/v1/messages", ((b"A", b"b"),), json.dumps(body).encode())


class Few:
    """Slots that are given out by name."""

    def __init__(self):
        self.forgotten = 0

    async def assign(self, conversation, pieces):
        return None if conversation == "none" else len(conversation) + sum(map(sum, pieces))

    def forget(self):
        self.forgotten += 1


class Told:
    """A worker that only listens."""

    def __init__(self):
        self.words = []

    def heard(self, line, message, load):
        self.words.append(message)

    def lost(self, line):
        pass


class Connected:
    """A keeper with the lines of two workers that are no processes."""

    def __init__(self):
        self.reactor = Reactor()
        self.slots = Few()
        self.failures = Failures()
        relaying = SimpleNamespace(
            spellings=Spellings(),
            plugins=SimpleNamespace(failures=self.failures),
            memory=SessionMemory(keep_requests=False),
            finished=None,
            via=b"",
        )
        self.crew = Crew(self.reactor, 2, relaying)
        self.crew._arrangement = SimpleNamespace(slots=self.slots)
        self.lines, self.ears = [], []
        for member in self.crew.members:
            ours, theirs = socket.socketpair()
            member.line = Line(self.reactor, ours, FromWorker, member)
            self.ears.append(Told())
            self.lines.append(Line(self.reactor, theirs, FromKeeper, self.ears[-1]))
            member.line.start()
            self.lines[-1].start()

    def result(self, coroutine):
        """What a coroutine returns, when the keeper looks at its lines in their worst order."""
        done = Deferred.fromCoroutine(coroutine)
        found = []
        done.addBoth(found.append)
        for _ in range(10):
            self.reactor.readers.sort(key=lambda line: line is not self.crew.members[1].line)
            for line in tuple(self.reactor.readers):
                line.doRead()
                self.reactor.advance(0)
        assert found, "there is no answer"
        return found[0]


@pytest.fixture
def connected():
    found = Connected()
    yield found
    for line in (*found.lines, *(member.line for member in found.crew.members)):
        line.close()


def test_what_was_told_before_is_known(connected):
    """Though the keeper reads the question first: its client has seen the answer already."""
    one, other = (AskedSpellings(line) for line in connected.lines)
    one.keep("call-1", '{"a":  1}')
    use = [{"type": "tool_use", "id": "call-1"}, {"type": "tool_use", "id": "call-2"}]
    asked = Request("POST", "/v1/messages", (), b"")
    asked.__dict__["_understood"] = (
        SimpleNamespace(value={"messages": [{"role": "assistant", "content": use}]}),
        None,
    )
    connected.result(other.learn(asked))
    assert other.kept("call-1") == '{"a":  1}'
    assert other.kept("call-2") is None


def test_the_last_request_of_a_session(connected):
    """Whoever sent it; each lane has its own."""
    one, other = (AskedMemory(line, i + 1) for i, line in enumerate(connected.lines))
    one.keep_requests = other.keep_requests = True
    asked = request("next")

    def known(memory, of=asked):
        connected.result(memory.refresh(SESSION, of))
        return memory.recall(SESSION, of).request

    assert known(one) is None
    assert one.sent(SESSION, request("first")) == 1
    assert known(other) == request("first")
    assert known(one) == request("first")
    other.sent(SESSION, request("second"))
    assert known(one) == request("second")
    assert known(one) is known(one)  # it has not come through the line again
    assert known(one, request("x", tools=("read",))) is None


def test_requests_are_told_of_only_if_a_rule_looks_at_them(connected):
    """Their bodies are not sent for nothing."""
    memory = AskedMemory(connected.lines[0], 1)
    assert memory.sent(SESSION, request("first")) == 1
    connected.result(memory.refresh(SESSION, request("first")))
    assert memory.recall(SESSION, request("first")).request is None


def test_slots_are_the_keepers(connected):
    """With what it is asked by; they are forgotten at a worker's word, and the others told."""
    slots = AskedSlots(connected.lines[0])
    assert connected.result(slots.assign("abc", ((1, 2), (-3, 4)))) == 7
    assert connected.result(slots.assign("none", ())) is None
    connected.lines[0].tell(Forget())
    assert connected.result(slots.assign("", ())) == 0
    assert connected.slots.forgotten == 1
    assert [ear.words for ear in connected.ears] == [[], [Forget()]]


def test_failures_are_added_up(connected):
    """As they grow, and from nothing again when a worker was started anew."""
    first, second = connected.crew.members

    def stand(member, failed, *, left_out=False):
        count = {"failed": failed, "timed_out": 1, "dropped": 0, "left_out": left_out}
        connected.crew._stand(member, Standing(0, 0, {b"rule": count}, 0))

    stand(first, 2)
    stand(second, 5)
    stand(first, 3, left_out=True)
    connected.crew._stand(first, Standing(0, 0, {}, 0))
    stand(first, 1)
    (count,) = connected.failures.as_dict().values()
    assert count == {"failed": 9, "timed_out": 3, "dropped": 0, "left_out": True}
