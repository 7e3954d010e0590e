"""Reasoning is found again at its place, and does not grow for ever."""

from cacheproxy.core.conversation import thoughts as module
from cacheproxy.core.conversation.hearing import Heard
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.thoughts import Thought, Thoughts
from cacheproxy.testing import request
from tests import transcript
from tests.core.conversation.proxied import Proxy, by_turns

THOUGHT = Thought("reasoning", '"so"')


def test_of_two_thoughts_at_one_place_neither_is_given():
    """The answer was asked for anew, or two conversations are equal so far: nobody knows whose."""
    thoughts = Thoughts()
    thoughts.keep(1, THOUGHT)
    thoughts.keep(1, THOUGHT)
    assert thoughts.find(1) == THOUGHT
    for other in ('"other"', '"other"', '"so"'):
        thoughts.keep(1, Thought("reasoning", other))
        assert thoughts.find(1) is None
    assert thoughts.find(2) is None


def test_the_least_recently_given_goes_first(monkeypatch):
    """Beyond what any context holds, it is of history that the client has dropped."""
    monkeypatch.setattr(module, "_MOST_BYTES", 3_000)
    monkeypatch.setattr(module, "_MOST_SEEN", 8)
    thoughts = Thoughts()
    for number in range(6):
        thoughts.keep(number, Thought("", f'"{"x" * 700}"'))
        assert thoughts.find(0) is not None
        thoughts.said(number, lambda: 0)
    assert thoughts.find(1) is None
    assert thoughts.find(5) is not None
    assert thoughts.cost < 4_000


def asked(text, session="a"):
    return request({"messages": by_turns([text])}, headers={"x-session-id": session})


def test_the_store_counts_thoughts_and_drops_them_with_their_conversation():
    proxy = Proxy()
    store = proxy.store
    session = proxy(asked("words")).session
    before = store.bytes_stored
    heard = Heard(1, Thought("", f'"{"x" * 150_000}"'), is_whole=True)
    store.heard(session, None, 1, None, heard)
    assert store.bytes_stored >= before + 150_000
    assert store.bytes_stored == store.conversation(session).cost
    store.most_bytes = 200_000
    proxy(asked("others " * 9_000, "b"))
    assert store.conversation(session) is None
    assert store.bytes_stored < 200_000
    for gone in (session, Session("agent", "nobody's")):
        store.heard(gone, None, 1, None, Heard(1, THOUGHT, is_whole=True))
        assert store.conversation(gone) is None


def test_all_that_is_said():
    transcript.holds("conversation.txt", globals())
