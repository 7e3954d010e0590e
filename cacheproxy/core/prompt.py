"""A body as the ordered segments a chat template would render: tools, system, messages.

Two requests whose segments read alike are alike to the server, however their JSON is spelt:
cache breakpoints (``cache_control``) are no part of a prompt, and a text is the same whether it
stands as a string or as one text block. Key order inside a tool is part of it: templates print
tools as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from cacheproxy.core import dialect
from cacheproxy.core.document import Document, Entry
from cacheproxy.core.request import Request


class Part(StrEnum):
    """The part of a prompt that a segment belongs to."""

    TOOLS = "tools"
    SYSTEM = "system"
    MESSAGES = "messages"


class Order(StrEnum):
    """What a chat template prints first. It decides what a change costs."""

    TOOLS_FIRST = "tools first"
    SYSTEM_FIRST = "system first"


_SOURCES = {
    "assistant": "model",
    "model": "model",
    "user": "user",
    "tool": "tool",
    "function": "tool",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of a prompt: the JSON pointer where it stands, and how it reads.

    ``role``: of the message it is part of, empty for tools and the system text. ``source``: who
    wrote it: ``client`` (tools, system), ``user``, ``model`` or ``tool``.
    """

    part: Part
    path: str
    text: str
    role: str = ""
    source: str = "client"


Pieces = dict[tuple[int, Part, int], tuple[Segment, ...]]
"""Index of a message, its part, and a hash of its spelling, to its segments."""


@dataclass(frozen=True)
class Prompt:
    """A whole prompt, in the order of the template. ``model`` as the request names it.

    ``pieces``: the segments of each message by where and how it stood, for the next turn to use.
    """

    model: str
    segments: tuple[Segment, ...]
    pieces: Pieces = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def chars(self) -> int:
        """Characters of all segments."""
        return sum(len(segment.text) for segment in self.segments)

    @cached_property
    def cost(self) -> int:
        """Bytes that keeping it takes, roughly: the texts, and what Python adds to each."""
        return self.chars + 200 * len(self.segments)


def prompt_of(
    request: Request, order: Order = Order.TOOLS_FIRST, earlier: Prompt | None = None
) -> Prompt | None:
    """Return the prompt of ``request``, or None if it has none that we can read.

    ``earlier``: one that is likely to be much the same. Its segments are used again where they
    are equal, which makes a turn cost what is new in it.
    """
    document = request.document
    if document is None:
        return None
    body = document.value
    pieces: Pieces = {}
    known = earlier.pieces if earlier is not None else {}
    if request.dialect is not None:
        tools, texts = (
            list(_tools(document)),
            list(_texts(request.dialect, document, pieces, known)),
        )
    elif _is_gemini(request.path):
        tools, texts = list(_gemini_tools(body)), list(_gemini_texts(body))
    else:
        return None
    system = [segment for segment in texts if segment.part is Part.SYSTEM]
    rest = [segment for segment in texts if segment.part is not Part.SYSTEM]
    head = tools + system if order is Order.TOOLS_FIRST else system + tools
    model = body.get("model")
    segments = tuple((_known_again(head, earlier) if earlier is not None else head) + rest)
    return Prompt(model if isinstance(model, str) else "", segments, pieces) if segments else None


def _known_again(head: list[Segment], earlier: Prompt) -> list[Segment]:
    """Return ``head`` with the segments of ``earlier`` that are equal to its own."""
    by_path = {
        segment.path: segment for segment in earlier.segments if segment.part is not Part.MESSAGES
    }
    again = []
    for segment in head:
        old = by_path.get(segment.path)
        again.append(old if old is not None and old == segment else segment)
    return again


def _tools(document: Document) -> Iterator[Segment]:
    """Each tool as the request spells it: a tenth of the cost of printing it anew."""
    tools = document.value.get("tools")
    if not isinstance(tools, list) or not tools:
        return
    for entry in document.siblings(("tools", 0)):
        text = document.text(entry)
        if isinstance(entry.value, dict) and "cache_control" in entry.value:
            text = _without_breakpoint(document, entry)
        yield Segment(Part.TOOLS, f"/tools/{entry.key}", text)


def _without_breakpoint(document: Document, tool: Entry) -> str:
    """The tool as it would be spelled without its ``cache_control``, commas and spaces alike."""
    body = document.body
    members = document.siblings(("tools", tool.key, "cache_control"))
    kept = [body[one.start : one.end] for one in members if one.key != "cache_control"]
    comma = body[members[0].end : members[1].start] if len(members) > 1 else b""
    head, tail = body[tool.value_start : members[0].start], body[members[-1].end : tool.end]
    return (head + comma.join(kept) + tail).decode()


def _texts(spoken: str, document: Document, pieces: Pieces, known: Pieces) -> Iterator[Segment]:
    body = document.value
    if spoken == dialect.COMPLETION:
        # One text of everybody's words: nothing in it is known to be the client's own.
        yield from _content("/prompt", body.get("prompt"), Part.MESSAGES, "user")
        return
    for name in ("system", "instructions"):
        yield from _content(f"/{name}", body.get(name), Part.SYSTEM, "")
    if isinstance(body.get("prompt"), str):  # Ollama's /api/generate
        yield from _content("/prompt", body["prompt"], Part.MESSAGES, "user")
    name = "input" if spoken == dialect.RESPONSES else "messages"
    items = body.get(name)
    if isinstance(items, str):
        yield Segment(Part.MESSAGES, f"/{name}", items, "user", "user")
    if not isinstance(items, list) or not items:
        return
    at_head = spoken != dialect.ANTHROPIC
    for index, entry in enumerate(document.siblings((name, 0))):
        item = entry.value
        role = item.get("role") if isinstance(item, dict) else None
        role = role if isinstance(role, str) else ""
        # Templates take leading system messages for the system text; later ones stay in place.
        at_head = at_head and role in ("system", "developer")
        part = Part.SYSTEM if at_head else Part.MESSAGES
        key = (index, part, hash(document.body[entry.value_start : entry.end]))
        found = known.get(key)
        if found is None:
            found = tuple(_item(f"/{name}/{index}", item, part, role))
        pieces[key] = found
        yield from found


def _is_gemini(path: str) -> bool:
    """Whether ``path`` is Gemini's API: seen in captures of its client, never sent upstream."""
    return path.rpartition(":")[2] in ("generateContent", "streamGenerateContent")


def _gemini_tools(body: dict[str, Any]) -> Iterator[Segment]:
    for index, tool in enumerate(_list(body.get("tools"))):
        declared = tool.get("functionDeclarations") if isinstance(tool, dict) else None
        for number, function in enumerate(_list(declared)):
            path = f"/tools/{index}/functionDeclarations/{number}"
            yield Segment(Part.TOOLS, path, _json(function))


def _gemini_texts(body: dict[str, Any]) -> Iterator[Segment]:
    holder = body.get("systemInstruction")
    yield from _gemini_parts("/systemInstruction", holder, Part.SYSTEM, "")
    for index, item in enumerate(_list(body.get("contents"))):
        role = item.get("role") if isinstance(item, dict) else None
        role = role if isinstance(role, str) else ""
        yield Segment(Part.MESSAGES, f"/contents/{index}/role", f"\n<{role}>\n", role)
        yield from _gemini_parts(f"/contents/{index}", item, Part.MESSAGES, role)


def _gemini_parts(path: str, holder: Any, part: Part, role: str) -> Iterator[Segment]:
    parts = holder.get("parts") if isinstance(holder, dict) else None
    for index, block in enumerate(_list(parts)):
        where = f"{path}/parts/{index}"
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield Segment(part, f"{where}/text", block["text"], role, _source(role))
        elif isinstance(block, dict):
            # Each answer is signed anew.
            shown = {key: value for key, value in block.items() if key != "thoughtSignature"}
            source = "tool" if "functionResponse" in block else _source(role)
            yield Segment(part, where, _json(shown), role, source)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _item(path: str, item: Any, part: Part, role: str) -> Iterator[Segment]:
    """One message, or one of the Responses API's other items (function_call …)."""
    if not isinstance(item, dict):
        yield Segment(part, path, _json(item), role, _source(role))
        return
    kind = item.get("type")
    if kind not in (None, "message"):
        source = "tool" if str(kind).endswith("_output") else "model"
        shown = {key: value for key, value in item.items() if key not in ("id", "status")}
        yield Segment(part, path, _json(shown), str(kind), source)
        return
    yield Segment(part, f"{path}/role", f"\n<{role}>\n", role)
    yield from _content(f"{path}/content", item.get("content"), part, role)
    for key in ("reasoning_content", "thinking"):
        if isinstance(item.get(key), str):
            yield Segment(part, f"{path}/{key}", item[key], role, "model")
    calls = item.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        yield Segment(part, f"{path}/tool_calls/{index}", _json(function or call), role, "model")


def _content(path: str, content: Any, part: Part, role: str) -> Iterator[Segment]:
    if isinstance(content, str):
        if content:
            yield Segment(part, path, content, role, _source(role))
        return
    for index, block in enumerate(content if isinstance(content, list) else ()):
        yield from _block(f"{path}/{index}", block, part, role)


def _block(path: str, block: Any, part: Part, role: str) -> Iterator[Segment]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in ("text", "input_text", "output_text") and isinstance(block.get("text"), str):
        yield Segment(part, f"{path}/text", block["text"], role, _source(role))
    elif kind == "tool_result":
        yield Segment(part, path, "\n<tool_result>\n", role, "tool")
        yield from _content(f"{path}/content", block.get("content"), part, "tool")
    elif kind == "tool_use":
        shown = {key: block.get(key) for key in ("name", "input")}
        yield Segment(part, path, _json(shown), role, "model")
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        yield Segment(part, f"{path}/thinking", block["thinking"], role, "model")
    else:
        shown = block
        if isinstance(block, dict):
            shown = {key: value for key, value in block.items() if key != "cache_control"}
        yield Segment(part, path, _json(shown), role, _source(role))


def _source(role: str) -> str:
    return _SOURCES.get(role, "client")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
