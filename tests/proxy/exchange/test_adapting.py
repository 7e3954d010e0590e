"""Where the reasoning of an answer is read: on the reactor, or in a thread."""

import gzip
import json

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.thinking.keeping import YES
from cacheproxy.proxy.exchange.adapting import OFF, Adapting

SESSION = Session("agent", "s")
ASKS = b'{"messages": [{"role": "user", "content": "hi"}]}'
MESSAGE = {"role": "assistant", "content": "a", "reasoning_content": "because"}
ANSWER = json.dumps({"choices": [{"message": MESSAGE}]}).encode()
PACKED = ((b"Content-Encoding", b"gzip"),)


@pytest.mark.parametrize(
    ("body", "headers", "at_once"),
    [
        (ANSWER, (), True),
        (ANSWER + b" " * 100_000, (), False),
        (gzip.compress(ANSWER + b" " * 100_000, mtime=0), PACKED, False),
    ],
    ids=["short", "long", "packed"],
)
def test_a_long_answer_is_read_in_a_thread(reactor, body, headers, at_once):
    """So is a packed one: nobody knows how long it becomes."""
    store = Store()
    request = Request("POST", "/v1/chat/completions", (), ASKS)
    store.begin(store.find(SESSION, request), request)
    thoughts = store.conversation(SESSION).thoughts
    fields = ((b"Content-Type", b"application/json"), *headers)
    adapting = Adapting(reactor, None, store, placing=OFF, keeping=YES)
    adapting.answered(SESSION, 0, CHAT, fields, body)
    assert bool(thoughts.cost) == at_once
    reactor.turn_until(lambda: thoughts.cost)
