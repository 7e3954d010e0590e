"""What a scripted model says: what the capture's next request shows that it said, in any dialect.

A said is a list of ``("text", text)``, ``("thinking", text)`` and ``("tool", id, name, JSON)``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
Said = list[tuple[str, ...]]
NOTHING: Said = [("text", "Done.")]
LISTS = ("messages", "input", "contents")
"""Where each dialect has its messages."""


def parsed(body: str) -> Json:
    """Return the JSON object that ``body`` is, {} where it is none."""
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def said_after(lines: Sequence[Json], number: int) -> Said:
    """Return what the model answered to one line: the later request that continues it shows it."""
    asked = parsed(lines[number]["body"])
    for line in lines[number + 1 :]:
        later = parsed(line["body"])
        for name in LISTS:
            before, after = asked.get(name), later.get(name)
            if not isinstance(before, list) or not isinstance(after, list):
                continue
            rest = after[len(before) :]
            if rest and _marks(before) == _marks(after[: len(before)]):
                said = [part for message in _of_model(rest) for part in _parts(message)]
                if said:
                    return said
    return NOTHING


def _marks(messages: list[Any]) -> list[Any]:
    """The roles, and the beginning of the first message: what stays while a lane goes on."""
    return [messages and str(text_of(messages[0]))[:200], *(m.get("role") for m in messages)]


def _of_model(messages: list[Json]) -> list[Json]:
    found = []
    for message in messages:
        if message.get("role") not in ("assistant", "model") and message.get("type") not in (
            "function_call",
            "reasoning",
        ):
            break
        found.append(message)
    return found


def _parts(message: Json) -> Said:
    if message.get("type") == "function_call":
        return [("tool", message["call_id"], message["name"], message["arguments"])]
    said: Said = []
    if message.get("reasoning_content"):
        said.append(("thinking", message["reasoning_content"]))
    content = message.get("content") or message.get("parts") or ()
    for block in [{"text": content}] if isinstance(content, str) else content:
        if block.get("type") == "tool_use":
            said.append(("tool", block["id"], block["name"], json.dumps(block["input"])))
        elif block.get("type") == "thinking":
            said.append(("thinking", block["thinking"]))
        elif block.get("text"):
            said.append(("text", block["text"]))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        said.append(("tool", call["id"], function["name"], function["arguments"]))
    return said


def text_of(value: Any) -> str:
    """Return all texts in a message, one behind the other."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(text_of, value))
    if isinstance(value, dict):
        return "".join(text_of(value[key]) for key in value if key in ("text", "content", "parts"))
    return ""


def rendered(body: Json, *, hoists: bool, drops_reasoning: bool = False, day: str = "") -> str:
    """Return the prompt that a chat template makes of ``body``; the same for all dialects.

    ``hoists``: late system messages stand at the head. ``drops_reasoning``: reasoning is shown, but
    only behind the last user message, unless the request asks for more. ``day``: today, as the
    template writes it.
    """
    head = day + text_of(body.get("system") or body.get("instructions") or "")
    turns = []
    for name in LISTS:
        messages = body.get(name) if isinstance(body.get(name), list) else ()
        reasons_from = _reasons_from(body, messages) if drops_reasoning else len(messages)
        for index, message in enumerate(messages):
            role = message.get("role") or message.get("type")
            text = text_of(message) or text_of(message.get("output"))
            if index >= reasons_from:
                text = "".join(part[1] for part in _reasoning(message)) + text
            text += "".join(f"<call {part[2]} {part[3]}>" for part in _calls(message))
            if role in ("system", "developer") and (hoists or not turns):
                head += text
            else:
                turns.append(f"<|{role}|>{text}\n")
    tools = "".join(map(_tool, body.get("tools") or ()))
    return f"<|system|>{head}\n<|tools|>{tools}\n" + "".join(turns) + "<|assistant|>"


def _reasons_from(body: Json, messages: Sequence[Json]) -> int:
    """Return the first message whose reasoning is shown."""
    if (body.get("chat_template_kwargs") or {}).get("preserve_thinking") is True:
        return 0
    asked = [n for n, message in enumerate(messages) if _is_asking(message)]
    return asked[-1] if asked else 0


def _is_asking(message: Json) -> bool:
    """Whether the user speaks, and not only a tool."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    is_result = bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
    return message.get("role") == "user" and not is_result


def _reasoning(message: Json) -> Said:
    if not _is_call(message):
        return []
    return [part for part in _parts(message) if part[0] == "thinking"]


def _calls(message: Json) -> Said:
    return [part for part in _parts(message) if part[0] == "tool"] if _is_call(message) else []


def _is_call(message: Json) -> bool:
    return message.get("role") == "assistant" or message.get("type") == "function_call"


def _tool(tool: Json) -> str:
    tool = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    schema = tool.get("input_schema") or tool.get("parameters")
    return f"{tool.get('name')}: {tool.get('description')} {json.dumps(schema)}\n"


def is_late(body: Json) -> bool:
    """Whether a system message stands behind another one's."""
    roles = [m.get("role") for m in body.get("messages") or () if isinstance(m, dict)]
    return "system" in roles[1:]
