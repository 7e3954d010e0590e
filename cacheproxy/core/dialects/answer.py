"""An answer of the model: how an API's answers are read, and what one says, as a number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cacheproxy.core.dialects.content import calls_in

_Json = dict[str, Any]
Called = tuple[str, Any]
"""A tool's name, and its arguments: the text of a JSON value, or the value."""
_TEXTS = ("text", "output_text", "input_text")


@dataclass(slots=True)
class ReadAnswer:
    """An answer as far as it was read."""

    name: str = ""  #: of the member that the reasoning came as
    text: list[str] = field(default_factory=list)  #: pieces of what it says
    reasoning: list[str] = field(default_factory=list)  #: pieces of its reasoning
    calls: list[Called] = field(default_factory=list)  #: the tool calls that came whole
    pieces: dict[str, list[str]] = field(default_factory=dict)
    """name and arguments of each tool call that comes in pieces, by its index"""
    hides: bool = False  #: its reasoning is hidden, or signed by a vendor
    items: dict[Any, _Json] = field(default_factory=dict)
    """Items of the Responses API, by their index."""

    def called(self, index: Any, name: Any, arguments: Any) -> None:
        """Take a piece of a call: its name comes once, its arguments bit by bit."""
        call = self.pieces.setdefault(str(index), ["", ""])
        for place, piece in enumerate((name, arguments)):
            if isinstance(piece, str):
                call[place] += piece

    def said(self) -> int:
        """Return the number of what it says, see ``said``."""
        if self.items:
            return said_in([self.items[at] for at in sorted(self.items)])
        pieces = ((name, given) for name, given in self.pieces.values())
        return said("".join(self.text), (*self.calls, *pieces))

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, and calls nothing."""
        return not (self.items or self.calls or self.pieces or "".join(self.text).strip())


class Reading(NamedTuple):
    """How an API's answers are read. Both raise ValueError where nothing can be known."""

    read: Callable[[ReadAnswer, _Json], None]  #: takes a whole answer
    read_event: Callable[[ReadAnswer, _Json], None]  #: takes one event, or line, of a stream


def said(text: str, calls: Iterable[Called]) -> int:
    """Return a number for an answer, however a client spells it: for its text and its tool calls.

    The answer as the server gave it and the message as the client sends it back come to the same
    number, unless the client edited it. White space around the text does not count, nor how the
    arguments of calls are spelled, nor the ids of calls.
    """
    return hash((text.strip(), *((name, _plain(given)) for name, given in calls)))


def said_in(messages: Iterable[_Json]) -> int:
    """Return the same for the messages, or items, as which a client sends one answer back."""
    texts: list[str] = []
    calls: list[Called] = []
    for message in messages:
        kind = message.get("type")
        if kind in (None, "message"):
            texts += _texts(message.get("content"))
        elif kind == "custom_tool_call":
            calls.append((str(message.get("name")), [message.get("input")]))
        elif kind not in ("reasoning", "function_call"):  # a server's own tools
            calls.append((str(kind), None))
        calls += ((call.name, call.arguments) for call in calls_in(message))
    return said("".join(texts), calls)


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [
        block["text"]
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict)
        and block.get("type") in _TEXTS
        and isinstance(block.get("text"), str)
    ]


def _plain(given: Any) -> str:
    """Return arguments in one spelling: a client may order and escape them anew."""
    try:
        text = given if isinstance(given, str) else json.dumps(given)
        value = json.loads(text or "{}", parse_float=_as_number)
        return json.dumps(value or {}, sort_keys=True)
    except (ValueError, RecursionError, TypeError):
        return str(given)


def _as_number(text: str) -> float:
    """1.0 is 1 to clients that are written in JavaScript."""
    value = float(text)
    return int(value) if value.is_integer() else value
