"""SessionMemory: turns and requests of each session, in bounded memory."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange import memory as module
from cacheproxy.proxy.exchange.memory import Memory, SessionMemory

ONE, TWO = Session("agent", "one"), Session("agent", "two")


def request(body=b'{"messages":[],"tools":[{}]}', path="/v1/messages"):
    return Request("POST", path, (), body)


def test_turns_are_counted_by_session():
    """From one, each session its own."""
    memory = SessionMemory(keep_requests=False)
    assert [memory.sent(ONE, request()) for _ in range(3)] == [1, 2, 3]
    assert memory.sent(TWO, request()) == 1
    assert memory.sent(Session("other", "one"), request()) == 1


def test_requests_without_tools_have_a_lane_of_their_own():
    """A title request between two turns extends neither."""
    memory = SessionMemory(keep_requests=True)
    main, title = request(), request(b'{"messages":[]}')
    assert memory.sent(ONE, main) == 1
    assert memory.sent(ONE, title) == 1
    assert memory.sent(ONE, request(b'{"tools":[]}')) == 2
    assert memory.sent(ONE, request(path="/v1/chat/completions")) == 1
    assert memory.recall(ONE, main).request is main
    assert memory.sent(ONE, main) == 2


def test_requests_are_kept_only_where_a_rule_looks_at_them():
    """They are the conversation's text."""
    for keep in (False, True):
        memory = SessionMemory(keep_requests=keep)
        memory.sent(ONE, sent := request())
        assert memory.recall(ONE, sent).request is (sent if keep else None)


@pytest.mark.parametrize("body", [b"not json", b"", b"[]", b'{"tools":7}'])
def test_any_body_has_a_lane(body):
    """Even one that cannot be read."""
    memory = SessionMemory(keep_requests=True)
    assert memory.sent(ONE, request(body)) == 1
    assert memory.sent(ONE, request(body)) == 2


def test_the_least_recently_used_sessions_go_first(monkeypatch):
    """By their number."""
    monkeypatch.setattr(module, "_MOST_SESSIONS", 3)
    memory = SessionMemory(keep_requests=False)
    sessions = [Session("agent", str(number)) for number in range(4)]
    for session in sessions[:3]:
        memory.sent(session, request())
    memory.sent(sessions[0], request())
    memory.sent(sessions[3], request())
    turns = [memory.recall(session, request()).turns for session in sessions]
    assert turns == [2, 0, 1, 1]


def test_the_bytes_of_requests_are_bounded(monkeypatch):
    """The latest stays, though it is larger than all that may be kept."""
    monkeypatch.setattr(module, "_MOST_BYTES", 10_000)
    memory = SessionMemory(keep_requests=True)
    large = request(b'{"x":"%s"}' % (b"y" * 1000))
    sessions = [Session("agent", str(number)) for number in range(50)]
    for session in sessions:
        memory.sent(session, large)
        memory.sent(session, large)
    kept = [session for session in sessions if memory.recall(session, large).request]
    assert kept == sessions[-3:]
    assert memory._bytes == sum(module._size(m) for m in memory._lanes.values()) <= 10_000
    huge = request(b'{"x":"%s"}' % (b"y" * 100_000))
    memory.sent(ONE, huge)
    assert memory.recall(ONE, huge).request is huge
    memory.sent(TWO, large)
    assert memory.recall(ONE, huge) == Memory()
    assert memory._bytes == module._size(memory.recall(TWO, large))
