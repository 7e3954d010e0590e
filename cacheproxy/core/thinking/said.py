"""What an assistant's message says, however a client spells it: its text and its tool calls.

The answer as the server gave it and the message as the client sends it back come to the same
number, unless the client edited it. White space around the text does not count, nor how the
arguments of calls are spelled, nor the ids of calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from cacheproxy.core.dialects.content import calls_in, texts_in

Called = tuple[str, Any]
"""A tool's name, and its arguments: the text of a JSON value, or the value."""


def said(text: str, calls: Iterable[Called]) -> int:
    """Return a number for an answer."""
    return hash((text.strip(), *((name, _plain(given)) for name, given in calls)))


def said_in(message: dict[str, Any]) -> int:
    """Return the same for a message of Chat Completions or Messages."""
    return said("".join(texts_in(message.get("content"))), called_in(message))


def called_in(message: dict[str, Any]) -> Iterator[Called]:
    """Yield what a message calls."""
    return ((call.name, call.arguments) for call in calls_in(message))


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
