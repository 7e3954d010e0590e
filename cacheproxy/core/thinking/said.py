"""What an assistant's message says, however a client spells it: its text and its tool calls.

The answer as the server gave it and the message as the client sends it back come to the same
number, unless the client edited it. White space around the text does not count, nor how the
arguments of calls are spelled, nor the ids of calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Call = tuple[str, Any]
"""A tool's name, and its arguments: the text of a JSON value, or the value."""


def said(text: str, calls: Iterable[Call]) -> int:
    """Return a number for an answer."""
    return hash((text.strip(), *((name, _plain(given)) for name, given in calls)))


def said_in(message: dict[str, Any]) -> int:
    """Return the same for a message of Chat Completions or Messages."""
    content = message.get("content")
    return said(text_in(content), (*calls_in(message), *blocks_called(content)))


def text_in(content: Any) -> str:
    """Return the text of a message: it is a string, or in a list of blocks."""
    if isinstance(content, str):
        return content
    texts = (
        block.get("text")
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and block.get("type") == "text"
    )
    return "".join(text for text in texts if isinstance(text, str))


def calls_in(message: dict[str, Any]) -> Iterator[Call]:
    """Yield the ``tool_calls`` of a Chat Completions message."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield str(function.get("name")), function.get("arguments")


def blocks_called(content: Any) -> Iterator[Call]:
    """Yield the ``tool_use`` blocks of a Messages message."""
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_use":
            yield str(block.get("name")), block.get("input")


def _plain(given: Any) -> str:
    """Return arguments in one spelling: a client may order and escape them anew."""
    try:
        text = given if isinstance(given, str) else json.dumps(given)
        value = json.loads(text or "{}", parse_float=_number)
        return json.dumps(value or {}, sort_keys=True)
    except (ValueError, RecursionError, TypeError):
        return str(given)


def _number(text: str) -> float:
    """1.0 is 1 to clients that are written in JavaScript."""
    value = float(text)
    return int(value) if value.is_integer() else value
