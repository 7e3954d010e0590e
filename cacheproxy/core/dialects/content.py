"""What stands in a message, in most APIs alike: blocks, texts and tool calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from cacheproxy.core.document.pointer import Path

SYSTEM_ROLES = ("system", "developer")
"""The roles of system text. OpenAI's newer models call it developer."""
_TEXTS = ("text", "input_text")
_Json = dict[str, Any]


class Call(NamedTuple):
    """A tool call."""

    id: Any  #: as the request has it
    name: str  #: of the tool
    path: Path  #: to its arguments
    arguments: Any  #: a JSON text or a value, which stands at ``path``


def blocks_of(content: Any) -> list[Any]:
    """Return the content of a message as blocks, without cache breakpoints: no part of a prompt."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {key: value for key, value in block.items() if key != "cache_control"}
        if isinstance(block, dict) and "cache_control" in block
        else block
        for block in (content if isinstance(content, list) else ())
    ]


def is_text(block: Any) -> bool:
    """Whether ``block`` is one of text."""
    return (
        isinstance(block, dict)
        and block.get("type") in _TEXTS
        and isinstance(block.get("text"), str)
    )


def texts_in(content: Any) -> list[str]:
    """Return the texts in the content of a message, one for each block."""
    return [block["text"] for block in blocks_of(content) if is_text(block)]


def texts_shown(content: Any) -> list[str]:
    """Return those that hold anything but white space."""
    if isinstance(content, str):
        return [] if not content or content.isspace() else [content]
    texts = []
    for block in content if isinstance(content, list) else ():
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str) and block.get("type") in _TEXTS and text and not text.isspace():
            texts.append(text)
    return texts


def calls_in(message: _Json, at: Path = ()) -> Iterator[Call]:
    """Yield the calls in a message, whose path is ``at``."""
    if message.get("type") == "function_call":
        name, given = str(message.get("name")), message.get("arguments")
        yield Call(message.get("call_id"), name, (*at, "arguments"), given)
    for number, call in _objects(message.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            path = (*at, "tool_calls", number, "function", "arguments")
            yield Call(call.get("id"), str(function.get("name")), path, function.get("arguments"))
    for number, block in _objects(message.get("content")):
        if block.get("type") == "tool_use":
            path = (*at, "content", number, "input")
            yield Call(block.get("id"), str(block.get("name")), path, block.get("input"))


def _objects(values: Any) -> Iterator[tuple[int, _Json]]:
    for number, value in enumerate(values if isinstance(values, list) else ()):
        if isinstance(value, dict):
            yield number, value
