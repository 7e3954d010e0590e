"""The keeper's answers to its workers, over real lines and without processes."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from types import SimpleNamespace

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.failures import Failures
from cacheproxy.crew.asking import AskedMemory, AskedSpellings, lane_out
from cacheproxy.crew.keeper import Crew
from cacheproxy.crew.line import Line
from cacheproxy.crew.messages import Forget, FromKeeper, FromWorker, Standing
from cacheproxy.crew.wire import exchange_out
from cacheproxy.proxy.exchange.memory import SessionMemory
from cacheproxy.translate.messages import Spellings

from .test_line import Reactor

SESSION = Session("claude", "s1")


def request(text, tools=()):
    body = {"model": "m", "tools": [{"name": name} for name in tools], "system": text}
    body["messages"] = []
    return Request("POST", "/v1/messages", ((b"A", b"b"),), json.dumps(body).encode())


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
        self.failures = Failures()
        self.taken = []
        relaying = SimpleNamespace(
            spellings=Spellings(),
            plugins=SimpleNamespace(failures=self.failures),
            memory=SessionMemory(keep_requests=False),
            finished=self.finished,
            via=b"",
        )
        self.crew = Crew(self.reactor, 2, relaying)
        self.lines, self.ears = [], []
        for member in self.crew.members:
            ours, theirs = socket.socketpair()
            member.line = Line(self.reactor, ours, FromWorker, member)
            self.ears.append(Told())
            self.lines.append(Line(self.reactor, theirs, FromKeeper, self.ears[-1]))
            member.line.start()
            self.lines[-1].start()

    def finished(self, exchange):
        self.taken.append(exchange)

    def result(self, coroutine):
        """What a coroutine returns, when the keeper looks at its lines in their worst order."""
        done = Deferred.fromCoroutine(coroutine)
        found = []
        done.addBoth(found.append)
        self.turn()
        assert found, "there is no answer"
        return found[0]

    def turn(self):
        """Let the keeper look at its lines, at that of the second worker first."""
        for _ in range(10):
            self.reactor.readers.sort(key=lambda line: line is not self.crew.members[1].line)
            for line in (*self.reactor.writers, *self.reactor.readers):
                line.doWrite()
                line.doRead()
                self.reactor.advance(0)


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
    said = {"messages": [{"role": "assistant", "content": use}]}
    asked.__dict__["document"] = SimpleNamespace(value=said)
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


def test_what_one_worker_forgets_the_others_do_too(connected):
    """It is told that the upstream was down, and tells them."""
    connected.lines[0].tell(Forget())
    connected.turn()
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


def exchange(number, *, wall, body=None, sent=None):
    """A turn that took a second."""
    received = (
        request(f"turn {number}") if body is None else Request("POST", "/v1/messages", (), body)
    )
    return Exchange(
        received=received,
        sent=received if sent is None else replace(received, body=sent),
        reports=(),
        session=SESSION,
        turn=1,
        upstream="",
        status=200,
        outcome=Outcome.COMPLETE,
        usage=Usage(),
        wall=wall,
        first_byte=None,
        seconds=1.0,
        bytes_down=number,
    )


def finish(line, found):
    message, load = exchange_out(found, lane_out(found.session, found.received))
    line.offer(message, *load)


def test_turns_are_taken_in_the_order_in_which_they_ended(connected):
    """Whichever the keeper reads first; and they are counted so."""
    first, second = connected.lines
    finish(first, exchange(1, wall=1.0))
    finish(second, exchange(2, wall=2.0))
    finish(first, exchange(4, wall=4.0))
    finish(second, exchange(3, wall=3.0))
    connected.turn()
    assert [(taken.bytes_down, taken.turn) for taken in connected.taken] == [
        (1, 1), (2, 2), (3, 3), (4, 4)
    ]  # fmt: skip


def test_bodies_are_read_with_those_before_them(connected):
    """Of a turn that goes on from the last one, and of what was edited, little is scanned."""
    messages = [{"role": "user", "content": f"word {number} " * 100} for number in range(100)]
    for number in (99, 100):
        body = json.dumps({"model": "m", "messages": messages[:number], "system": "stamp=7"})
        edited = body.replace("stamp=7", "stamp=0").encode()
        finish(connected.lines[number % 2], exchange(1, wall=1.0, body=body.encode(), sent=edited))
        connected.turn()
    first, second = connected.taken
    assert first.received.document.scanned == len(first.received.body)
    assert second.received.document.scanned < len(second.received.body) / 10
    for taken in (first, second):
        assert taken.sent.document.scanned < len(taken.sent.body) / 10
        assert taken.sent.json["system"] == "stamp=0"
        assert taken.received.json["system"] == "stamp=7"


def test_a_large_body_is_not_read_here(connected):
    """But in the thread where it is judged."""
    body = json.dumps({"model": "m", "messages": [], "system": "x" * (1 << 20)}).encode()
    finish(connected.lines[0], exchange(1, wall=1.0, body=body, sent=body + b" "))
    connected.turn()
    (taken,) = connected.taken
    assert not taken.received.is_read
    assert not taken.sent.is_read
    assert taken.sent.json == taken.received.json


def test_workers_know_who_has_the_fewest_connections(connected):
    """Once it is another number; who is not there yet does not count."""
    first, second = connected.crew.members
    first.is_ready = True
    connected.crew._stand(first, Standing(5, 0, {}, 0))
    second.is_ready = True
    for connections in (3, 3, 9):
        connected.crew._stand(second, Standing(connections, 0, {}, 0))
    connected.turn()
    told = [[word.connections for word in ear.words] for ear in connected.ears]
    assert told == [[5, 3, 5], [3, 5]]
