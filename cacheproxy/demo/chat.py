"""An Anthropic messages body in the shape gateways send to OpenAI-style servers.

Only what a recorded Claude Code conversation holds: text, tool calls, tool results.
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]


def to_chat(body: Json) -> Json:
    """Return the chat completions body that says the same, the system text first.

    The system blocks become one string, so the volatile header stays at its very head.
    """
    system = {"role": "system", "content": text_of(body["system"])}
    messages = [turned for message in body["messages"] for turned in _messages(message)]
    return {
        "model": body["model"],
        "messages": [system, *messages],
        "tools": [_tool(tool) for tool in body["tools"]],
        "max_tokens": body["max_tokens"],
        "stream": body["stream"],
    }


def text_of(content: str | list[Json]) -> str:
    """Return the text of a content field, its blocks joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _tool(tool: Json) -> Json:
    function = {
        "name": tool["name"],
        "description": tool["description"],
        "parameters": tool["input_schema"],
    }
    return {"type": "function", "function": function}


def _messages(message: Json) -> list[Json]:
    role, content = message["role"], message["content"]
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if role == "assistant":
        return [_assistant(content)]
    results = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(block["content"])}
        for block in content
        if block["type"] == "tool_result"
    ]
    text = text_of(content)
    return results + ([{"role": role, "content": text}] if text else [])


def _assistant(content: list[Json]) -> Json:
    message: Json = {"role": "assistant", "content": text_of(content)}
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in content
        if block["type"] == "tool_use"
    ]
    return message | ({"tool_calls": calls} if calls else {})
