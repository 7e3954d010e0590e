"""Reasoning is found again at its place, and does not grow for ever."""

import json

import pytest

from cacheproxy.core.conversation import thoughts as module
from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.conversation.hearing import Heard
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.thoughts import Thought, Thoughts
from cacheproxy.testing import request
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


def test_what_an_answer_says_is_asked_once():
    asked = []
    thoughts = Thoughts()
    for _ in range(2):
        assert thoughts.said(1, lambda: asked.append(1) or 7) == 7
    assert asked == [1]


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
    before = store.bytes_kept
    heard = Heard(1, Thought("", f'"{"x" * 150_000}"'), is_whole=True)
    store.heard(session, None, 1, None, heard)
    assert store.bytes_kept >= before + 150_000
    assert store.bytes_kept == store.conversation(session).cost
    store.most_bytes = 200_000
    proxy(asked("others " * 9_000, "b"))
    assert store.conversation(session) is None
    assert store.bytes_kept < 200_000
    for gone in (session, Session("agent", "nobody's")):
        store.heard(gone, None, 1, None, Heard(1, THOUGHT, is_whole=True))
        assert store.conversation(gone) is None


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        # spaces, order, escapes, and numbers as JavaScript writes them
        ('{"a": 1.0}', '{"a":1}'),
        ('{"a": 1e2}', '{"a":100}'),
        ('{"b": 1,"a":[{}]}', '{"a":[{}],"b":1}'),
        ('{"a":"\\u00e9"}', '{"a":"é"}'),
        ('{"a":"\\ud83d"}', '{ "a":"\\ud83d"}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ('{"a":12345678901234567890}', '{"a":12345678901234567000}'),
    ],
)
def test_what_means_the_same_is_spelled_as_it_was(kept, text):
    spellings = Spellings()
    spellings.keep("a", kept)
    assert spellings.find("a", text, json.loads(text)) == kept
    assert spellings.find("b", text, json.loads(text)) == text


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ('{"a":1}', '{"a":true}'),
        ('{"a":0}', '{"a":null}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":1}', '{"a":1,"b":2}'),
        ('{"a":"1"}', '{"a":1}'),
        ('{"a":9007199254740991}', '{"a":9007199254740990}'),
        ('{"a":1' + "0" * 400 + "}", '{"a":1}'),
        ("{", "{}"),
    ],
)
def test_what_was_changed_is_the_client_s(kept, text):
    """The client may have edited the call; the server must see what the client says."""
    spellings = Spellings()
    spellings.keep("a", kept)
    assert spellings.find("a", text, json.loads(text)) == text
