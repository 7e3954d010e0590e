"""Which error answers are about the order or the roles of messages."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.placement.role_error import LARGEST, refuses_late, wants_turns

REFUSALS = [
    "System message must be at the beginning.",
    "Only user, assistant and tool roles are supported, got system.",
    (
        "Only user and assistant roles are supported, with the exception of an initial optional "
        "system message!"
    ),
    "Unexpected message role.",
    "Invalid role: system",
    "Unknown role: developer",
    "System role not supported",
    'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter',
    "Input should be 'user' or 'assistant'",
    'Error rendering prompt with jinja template: "System message must be at the beginning."',
    "system messages are only allowed at the start of the conversation",
]
TURNS = [
    "Conversation roles must alternate user/assistant/user/assistant/...",
    (
        "After the optional system message, conversation roles must alternate "
        "user/assistant/user/assistant/..."
    ),
]
OTHERS = [
    "the request exceeds the available context size, try increasing it",
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "model 'x' not found, try pulling it first",
    "max_tokens: Field required",
    "invalid api key",
    "json.exception.parse_error.101",
    "File Not Found",
    "tools.0.custom.name: Field required",
    "The image could not be decoded",
    "operating system error: disk full",
    "role of thumb",
    "",
]


def bodies(message):
    """The message in the errors of several servers."""
    yield json.dumps({"error": {"code": 400, "message": message, "type": "x"}}).encode()
    yield json.dumps({"error": message}, ensure_ascii=False).encode()
    yield json.dumps({"detail": [{"loc": ["body", "messages", 3], "msg": message}]}).encode()
    yield message.encode()


ERRORS = [
    *((message, True, False) for message in REFUSALS),
    *((message, True, True) for message in TURNS),
    *((message, False, False) for message in OTHERS),
]


@pytest.mark.parametrize(("message", "late", "turns"), ERRORS)
def test_a_refusal_is_told_by_the_words_of_templates_and_servers(message, late, turns):
    """In whichever form the error comes; others go to the client as they came."""
    for body in bodies(message):
        assert (refuses_late(body), wants_turns(body)) == (late, turns)


def test_of_a_long_answer_the_beginning_is_looked_at():
    """In which an error stands; and in no time that grows faster than its length."""
    refusal = REFUSALS[0].encode()
    assert refuses_late(b" " * (LARGEST - len(refusal)) + refusal)
    assert not refuses_late(b" " * LARGEST + refusal)
    assert not refuses_late(b"system message " * 100_000)
