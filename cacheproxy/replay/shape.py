"""A request in the shape llama-server's ``/apply-template`` takes: that of chat completions.

The server turns Messages and Responses bodies into chat shape before its template sees them; this
is the same for what coding agents send. Source: llama.cpp, ``tools/server/server-chat.cpp``, of
2026; other versions differ in details, so a count made with it is compared with the server's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from cacheproxy.core.prompt import dialect
from cacheproxy.core.prompt.request import Request

Json = dict[str, Any]

_CCH = re.compile(r"(\Ax-anthropic-billing-header:.*?cch=).{5}(?=;)", re.DOTALL)
"""llama-server overwrites a cch of five characters with as many f (ggml-org/llama.cpp#21793)."""
_TEMPLATE_MEMBERS = ("tool_choice", "chat_template_kwargs", "reasoning_effort", "response_format")


def chat_shape(request: Request) -> Json | None:
    """Return the body for ``/apply-template``, or None if ``request`` has no chat to render."""
    body = request.json
    if body is None:
        return None
    try:
        if request.dialect == dialect.CHAT:
            return body
        if request.dialect == dialect.ANTHROPIC:
            return _from_messages(body)
        if request.dialect == dialect.RESPONSES:
            return _from_responses(body)
    except (LookupError, TypeError, AttributeError):  # a shape nobody has told us of
        return None
    return None


def _from_messages(body: Json) -> Json:
    messages: list[Json] = []
    system = body.get("system")
    if isinstance(system, str):
        messages.append({"role": "system", "content": _without_cch(system)})
    elif isinstance(system, list):
        texts = (block.get("text", "") for block in system if block.get("type") == "text")
        messages.append({"role": "system", "content": "".join(map(_without_cch, texts))})
    for message in body["messages"]:
        if isinstance(message.get("content"), list):
            messages.extend(_message(message["role"], message["content"]))
        else:
            messages.append(message)
    shaped: Json = {"messages": messages}
    if isinstance(body.get("tools"), list):
        shaped["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.get("name", ""),
                    "description": tool.get("description", ""),
                    "parameters": tool.get("input_schema", {}),
                },
            }
            for tool in body["tools"]
        ]
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("auto", "any", "tool"):
        shaped["tool_choice"] = "auto" if choice["type"] == "auto" else "required"
    if "chat_template_kwargs" in body:
        shaped["chat_template_kwargs"] = body["chat_template_kwargs"]
    return shaped


def _message(role: str, blocks: list[Json]) -> Iterator[Json]:
    """One message of content blocks: what it says, then each of its tool results."""
    texts = [block for block in blocks if block.get("type") == "text"]
    thinking = "".join(block["thinking"] for block in blocks if block.get("type") == "thinking")
    calls = [
        _call(block.get("id", ""), block.get("name", ""), _compact(block.get("input", {})))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if texts or thinking or calls:
        message: Json = {"role": role, "content": texts or ""}
        if calls:
            message["tool_calls"] = calls
        if thinking:
            message["reasoning_content"] = thinking
        yield message
    for block in blocks:
        if block.get("type") == "tool_result":
            yield _result(block.get("tool_use_id", ""), block.get("content"))


def _from_responses(body: Json) -> Json:
    messages: list[Json] = []
    if "instructions" in body:
        messages.append({"role": "system", "content": body["instructions"] or ""})
    items = body["input"]
    if isinstance(items, str):
        messages.append({"role": "user", "content": items})
        items = []
    for item in items:
        _add_item(messages, item)
    shaped: Json = {"messages": messages}
    tools = [_tool(tool) for tool in body.get("tools") or () if tool.get("type") == "function"]
    if tools:
        shaped["tools"] = tools
    if isinstance(body.get("reasoning"), dict) and "effort" in body["reasoning"]:
        shaped["reasoning_effort"] = body["reasoning"]["effort"]
    return shaped | {name: body[name] for name in _TEMPLATE_MEMBERS if name in body}


def _add_item(messages: list[Json], item: Json) -> None:
    """Add an item of the Responses API; what a model says in a row becomes one message."""
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "function_call_output":
        messages.append(_result(item["call_id"], item["output"]))
        return
    if kind == "message" and role != "assistant":
        messages.append({"role": role, "content": list(_parts(item["content"]))})
        return
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant"})
    last = messages[-1]
    if kind == "function_call":
        call = _call(item["call_id"], item["name"], item["arguments"])
        last.setdefault("tool_calls", []).append(call)
    elif kind == "reasoning":
        last.setdefault("content", [])
        last["reasoning_content"] = item["content"][0]["text"]
    elif kind == "message":
        last["content"] = [*(last.get("content") or ()), *_parts(item["content"])]
    else:
        raise LookupError(kind)


def _tool(tool: Json) -> Json:
    function = {key: value for key, value in tool.items() if key != "type"}
    return {"type": "function", "function": {"strict": True, **function}}


def _parts(content: str | Iterable[Json]) -> Iterator[Json]:
    if isinstance(content, str):
        content = [{"text": content}]
    for part in content:
        yield {"text": part["text"], "type": "text"}


def _result(identity: str, content: Any) -> Json:
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    return {"role": "tool", "tool_call_id": identity, "content": content or ""}


def _call(identity: str, name: str, arguments: str) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def _without_cch(text: str) -> str:
    return _CCH.sub(lambda found: found[1] + "fffff", text)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
