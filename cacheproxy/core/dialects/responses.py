"""OpenAI's Responses API. Source: its API reference."""

from __future__ import annotations

from typing import Any

from cacheproxy.core.dialects.content import SYSTEM_ROLES
from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling

_Json = dict[str, Any]
_OURS = ("type", "strict")
"""Of a tool's definition, what Chat Completions has outside of the function, or not at all."""
_LAST = frozenset({"response.completed", "response.failed", "response.incomplete"})


def _as_chat(body: _Json) -> _Json:
    """Source: OpenAI's Responses API, and llama-server's own reading of it (server-chat.cpp)."""
    messages: list[_Json] = []
    if isinstance(body.get("instructions"), str):
        messages.append({"role": "system", "content": body["instructions"]})
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    for item in items:
        _add(messages, item)
    found = {**body, "messages": messages}
    if isinstance(body.get("tools"), list):
        found["tools"] = [
            {
                "type": "function",
                "function": {name: tool[name] for name in tool if name not in _OURS},
            }
            for tool in body["tools"]
            if tool.get("type") == "function"
        ]
    return found


def _add(messages: list[_Json], item: _Json) -> None:
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
        role = "system" if role in SYSTEM_ROLES else role
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


RESPONSES = Dialect(
    name="openai-responses",
    path="/v1/responses",
    endpoints=(Endpoint("/responses", Purpose.CHAT),),
    items="input",
    text_types=("input_text", "text"),
    is_text=True,
    head="instructions",
    limits=("max_output_tokens",),
    unstored={"store": False},
    as_chat=_as_chat,
    usage=(
        UsageSpelling(
            signs=("input_tokens_details", "total_tokens"),
            prompt=("input_tokens",),
            output=("output_tokens",),
            reused=("input_tokens_details.cached_tokens",),
            written=(
                "input_tokens_details.created_cache_tokens",
                "input_tokens_details.cache_write_tokens",
            ),
        ),
    ),
    says_reused=True,
    end=EndMarks(lambda message: str(message.get("type")) in _LAST, _LAST),
)
"""``/v1/responses``."""
