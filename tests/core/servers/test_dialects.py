"""Which APIs a server serves."""

from __future__ import annotations

import pytest

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.dialects import is_served, question

ANTHROPICS = b'{"type":"error","error":{"type":"not_found_error","message":"model: x"}}'


@pytest.mark.parametrize(
    ("status", "body", "served"),
    [
        (500, b'{"error":{"code":500,"message":"\'messages\' is required"}}', True),
        (400, b"{}", True),
        (422, b"{}", True),
        (401, b"{}", True),
        (200, b"{}", True),
        (404, ANTHROPICS, True),
        (404, b'{"error":{"message":"File Not Found","type":"not_found_error"}}', False),
        (404, b"404 page not found", False),
        (405, b"", False),
        (501, b"", False),
        (200, b'{"error":"Unexpected endpoint or method. (POST /v1/messages)"}', False),
        (502, b"", None),
        (503, b'{"error":{"message":"Loading model"}}', None),
        (429, b"", None),
        (508, b"", None),
    ],
)
def test_is_served(status, body, served):
    """By the answers of llama-server, vLLM, Ollama, LM Studio and gateways before them."""
    assert is_served(status, body) is served


@pytest.mark.parametrize(
    ("path", "dialect", "asked"),
    [
        ("/v1/messages", MESSAGES, "/v1/messages"),
        ("/v1/messages?beta=true", CHAT, "/v1/chat/completions"),
        ("/x/v1/messages/count_tokens", CHAT, "/x/v1/chat/completions"),
        ("/api/v1/chat/completions/", MESSAGES, "/api/v1/messages"),
    ],
)
def test_question(path, dialect, asked):
    """It keeps the prefix and the credentials, and nothing of what the user wrote."""
    headers = ((b"X-Api-Key", b"k"), (b"Authorization", b"Bearer b"), (b"Cookie", b"c"))
    request = Request("POST", path, headers, b'{"messages": []}')
    found = question(request, dialect)
    assert (found.method, found.target, found.body) == ("POST", asked, b"{}")
    assert found.header("x-api-key") == "k"
    assert found.header("authorization") == "Bearer b"
    assert found.header("cookie") is None
