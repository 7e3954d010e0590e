"""A prompt of any API as a chat body, which is what servers render for us.

Their pages take messages of Chat Completions. What a server makes of Messages or Responses inside
may differ in a mark or two; who compares the result checks it by the count of its tokens.
"""

from __future__ import annotations

import json
from typing import Any

from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.translation import MessagesToChat
from cacheproxy.translate.translation_error import TranslationError

_KEPT = ("messages", "tools", "tool_choice", "chat_template_kwargs", "reasoning_effort", "model")
"""What a template sees. ``response_format`` and the like bind the answer alone."""


def chat_of(request: Request) -> dict[str, Any] | None:
    """Return the chat body of ``request``; None where it has no conversation that is understood."""
    try:
        body = _chat(request)
    except (TranslationError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None
    if body is None or not isinstance(body.get("messages"), list):
        return None
    return {name: body[name] for name in _KEPT if body.get(name) is not None}


def _chat(request: Request) -> dict[str, Any] | None:
    dialect, body = request.dialect, request.json
    if dialect is None:
        return None
    if dialect.as_chat is None:
        value: dict[str, Any] = json.loads(MessagesToChat(request).sent.body)
        return value
    return None if body is None else dialect.as_chat(body)
