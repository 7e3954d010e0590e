"""Where an answer is read: on the reactor, or in a thread."""

import gzip
import json

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange.listener import Listener
from cacheproxy.record.exchange import Exchange

SESSION = Session("agent", "0123456789abcdef")  # not named by its client
ASKS = b'{"messages": [{"role": "user", "content": "hi"}]}'
MESSAGE = {"role": "assistant", "content": "a", "reasoning_content": "because"}
ANSWER = json.dumps({"choices": [{"message": MESSAGE}]}).encode()
PACKED = ((b"Content-Encoding", b"gzip"),)


@pytest.mark.parametrize(
    ("body", "headers", "at_once"),
    [
        (ANSWER, (), True),
        (ANSWER + b" " * 100_000, (), False),
        (gzip.compress(ANSWER + b" " * 9_000_000, mtime=0), PACKED, False),
    ],
    ids=["short", "long", "packed"],
)
def test_a_long_answer_is_read_in_a_thread(reactor, body, headers, at_once):
    """So is a packed one: nobody knows how long it becomes."""
    store = Store()
    request = Request("POST", "/v1/chat/completions", (), ASKS)
    place = store.begin(store.find(SESSION, request, restores=True), request)
    fields = ((b"Content-Type", b"application/json"), *headers)
    record = Exchange(request, 0.0, session=SESSION, place=place, response_headers=fields)
    listener = Listener(reactor, store, record, 0)
    assert store.readers
    listener.feed(body)
    listener.close(is_whole=True)
    thoughts = store.conversation(SESSION).thoughts
    assert bool(thoughts.cost) == at_once
    reactor.turn_until(lambda: thoughts.cost)
    assert place.history.answers
    assert not place.history.has_unread
    assert not store.readers
