"""A prompt of any API as a chat body, which is what servers render for us.

Their pages take messages of Chat Completions. What a server makes of Messages or Responses inside
may differ in a mark or two; who compares the result checks it by the count of its tokens.
"""

from __future__ import annotations

import json
from typing import Any

from cacheproxy.core.prompt import dialect
from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.translation import MessagesToChat
from cacheproxy.translate.translation_error import TranslationError

_KEPT = ("messages", "tools", "tool_choice", "chat_template_kwargs", "reasoning_effort", "model")
"""What a template sees. ``response_format`` and the like bind the answer alone."""
_SYSTEM = ("system", "developer")


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
    if request.dialect == dialect.ANTHROPIC:
        value: dict[str, Any] = json.loads(MessagesToChat(request).sent.body)
        return value
    body = request.json
    if body is None or request.dialect in (dialect.CHAT, dialect.OLLAMA):
        return body
    return _of_responses(body) if request.dialect == dialect.RESPONSES else None


def _of_responses(body: dict[str, Any]) -> dict[str, Any]:
    """Source: OpenAI's Responses API, and llama-server's own reading of it (server-chat.cpp)."""
    messages: list[dict[str, Any]] = []
    if isinstance(body.get("instructions"), str):
        messages.append({"role": "system", "content": body["instructions"]})
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    for item in items:
        _add(messages, item)
    found = {**body, "messages": messages}
    if isinstance(body.get("tools"), list):
        found["tools"] = [
            {"type": "function", "function": _without_type(tool)}
            for tool in body["tools"]
            if tool.get("type") == "function"
        ]
    return found


def _add(messages: list[dict[str, Any]], item: dict[str, Any]) -> None:
    kind = item.get("type", "message")
    last = messages[-1] if messages else {}
    if kind == "function_call":
        function = {"name": item["name"], "arguments": item["arguments"]}
        call = {"id": item["call_id"], "type": "function", "function": function}
        if last.get("role") == "assistant":
            last.setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    elif kind == "function_call_output":
        output = _text(item["output"])
        said = {"role": "tool", "tool_call_id": item["call_id"], "content": output}
        messages.append(said)
    elif kind == "reasoning":
        thought = _text(item.get("content") or item.get("summary") or "")
        messages.append({"role": "assistant", "content": "", "reasoning_content": thought})
    elif kind == "message":
        role, text = item["role"], _text(item["content"])
        role = "system" if role in _SYSTEM else role
        thinks = "reasoning_content" in last and "tool_calls" not in last and not last["content"]
        if role == "assistant" and thinks:
            last["content"] = text
        else:
            messages.append({"role": role, "content": text})
    else:
        raise ValueError(kind)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content)


def _without_type(tool: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tool.items() if name not in ("type", "strict")}
