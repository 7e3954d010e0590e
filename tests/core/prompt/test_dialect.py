"""Which API a path speaks."""

from __future__ import annotations

import pytest

from cacheproxy.core.prompt.dialect import (
    ANTHROPIC,
    CHAT,
    COMPLETION,
    OLLAMA,
    RESPONSES,
    dialect_of,
)
from cacheproxy.core.prompt.request import Request


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/messages", ANTHROPIC),
        ("/v1/messages/count_tokens", ANTHROPIC),
        ("/anthropic/v1/messages/", ANTHROPIC),
        ("/v1/chat/completions", CHAT),
        ("/chat/completions", CHAT),
        ("/openai/v1/chat/completions", CHAT),
        ("/apply-template", CHAT),
        ("/v1/responses", RESPONSES),
        ("/v1/completions", COMPLETION),
        ("/completion", COMPLETION),
        ("/completions", COMPLETION),
        ("/api/chat", OLLAMA),
        ("/api/generate", OLLAMA),
        *((path, None) for path in ("/", "", "/health", "/v1/models", "/v1/messages/batches")),
        *((path, None) for path in ("/v1/messages.txt", "/v1/mymessages", "/v1/embeddings")),
    ],
)
def test_dialect_follows_the_end_of_the_path(path, dialect):
    """Gateways put prefixes before the path, so its end decides."""
    assert dialect_of(path) == dialect
    assert Request("POST", f"{path}?next=/v1/messages").dialect == dialect
