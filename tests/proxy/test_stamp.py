"""The key of a conversation on its way to a router, on real sockets."""

import json

import pytest

from .conftest import proxy_with

BODY = json.dumps({"messages": [{"role": "user", "content": "Hello."}]}).encode()
NAMES = "X-Session-ID,X-SMG-Routing-Key"


stamping = proxy_with("--session-header", NAMES)


@pytest.fixture
def keys(stamping, upstream):
    """What the upstream gets in each of ``NAMES``."""

    def ask(*fields, path="/v1/messages", body=BODY):
        assert stamping.ask(path, body, *fields).status == 200
        received = upstream.received()
        return [received.values(name.lower().encode()) for name in NAMES.split(",")]

    return ask


def test_a_conversation_and_its_subagents_have_one_key(keys):
    """And no header says who it is. What is no conversation has none."""
    main = keys(b"x-claude-code-session-id: 4edf0c3a")
    assert main == [main[0], main[0]]
    (key,) = main[0]
    assert len(key) == 32
    assert key.isalnum()
    assert main == keys(b"x-claude-code-session-id: 4edf0c3a", b"x-claude-code-agent-id: 1")
    assert main == keys(b"session-id: child", b"x-parent-session-id: 4edf0c3a")
    assert main != keys(b"x-claude-code-session-id: 4edf0c3b")
    assert keys() == keys()  # by how it begins
    assert keys(path="/v1/models", body=None) == keys(path="/x") == [[], []]


def test_what_the_client_sent_goes_on_as_it_came(keys, connect, upstream):
    """Under the other name there is the key; without the setting nothing is sent."""
    theirs, ours = keys(b"X-Session-ID: mine")
    assert theirs == [b"mine"]
    assert len(ours) == 1
    assert connect().ask("/v1/messages", BODY).answer().status == 200
    assert upstream.received().values(b"x-session-id") == []
