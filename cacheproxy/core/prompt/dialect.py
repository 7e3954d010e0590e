"""The API that a request speaks, known from its path alone."""

from __future__ import annotations

from functools import lru_cache

ANTHROPIC = "anthropic"
"""Anthropic's Messages API: ``/v1/messages``, ``/v1/messages/count_tokens``."""
CHAT = "openai-chat"
"""OpenAI's Chat Completions API, and llama-server's ``/apply-template``."""
RESPONSES = "openai-responses"
"""OpenAI's Responses API."""
COMPLETION = "completion"
"""Plain text completion: OpenAI's legacy ``/v1/completions``, llama-server's ``/completion``."""
OLLAMA = "ollama"
"""Ollama's native ``/api/chat`` and ``/api/generate``."""

# Matched at the end of the path, since gateways put prefixes before it (/openai/v1/...).
_SUFFIXES = (
    ("/messages", ANTHROPIC),
    ("/messages/count_tokens", ANTHROPIC),
    ("/chat/completions", CHAT),
    ("/apply-template", CHAT),
    ("/responses", RESPONSES),
    ("/completions", COMPLETION),
    ("/completion", COMPLETION),
    ("/api/chat", OLLAMA),
    ("/api/generate", OLLAMA),
)


@lru_cache(maxsize=64)
def dialect_of(path: str) -> str | None:
    """Return one of this module's constants for the request path, or None."""
    path = path.rstrip("/")
    return next((dialect for suffix, dialect in _SUFFIXES if path.endswith(suffix)), None)
