"""An Anthropic messages body in the shape gateways send to OpenAI-style servers."""

from __future__ import annotations

import json
from typing import Any

from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.messages import MessagesToChat

Json = dict[str, Any]


def to_chat(body: Json) -> Json:
    """Return the chat completions body that says the same, the system text first.

    The system blocks become one string, so the volatile header stays at its very head.
    """
    request = Request("POST", "/v1/messages", (), json.dumps(body).encode())
    chat: Json = json.loads(MessagesToChat().request(request).body)
    return chat
