"""Ask a chat template what it prints first: the tools or the system text.

llama-server renders a conversation without evaluating it at POST ``/apply-template`` (its
tools/server/README.md). One request with a mark in each place tells the order.
"""

from __future__ import annotations

import json
from typing import Any

from cacheproxy.core.prompt import Order

PATH = "/apply-template"
_SYSTEM, _TOOL = "cacheproxy-system-mark", "cacheproxy_tool_mark"


def question() -> bytes:
    """Return the JSON body to POST to PATH."""
    tool = {"name": _TOOL, "description": "", "parameters": {"type": "object", "properties": {}}}
    return json.dumps(
        {
            "messages": [
                {"role": "system", "content": _SYSTEM},
                {"role": "user", "content": "hello"},
            ],
            "tools": [{"type": "function", "function": tool}],
        }
    ).encode()


def order_of(answer: Any) -> Order | None:
    """Return the order that the JSON ``answer`` shows, or None if it does not tell."""
    text = answer.get("prompt") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        return None
    system, tool = text.find(_SYSTEM), text.find(_TOOL)
    if system < 0 or tool < 0:
        return None
    return Order.TOOLS_FIRST if tool < system else Order.SYSTEM_FIRST
