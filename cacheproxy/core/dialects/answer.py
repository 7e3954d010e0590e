"""An answer of the model, as read from an API's bodies or events, and its content as a hash."""

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
    """The part of an answer that has been read."""

    name: str = ""  #: name of the member that has the reasoning
    text: list[str] = field(default_factory=list)  #: pieces of the text
    reasoning: list[str] = field(default_factory=list)  #: pieces of the reasoning
    calls: list[Called] = field(default_factory=list)  #: tool calls that came whole
    pieces: dict[str, list[str]] = field(default_factory=dict)
    """Name and arguments of each tool call that comes in pieces, by its index."""
    hides: bool = False  #: whether reasoning is hidden, or signed by a vendor
    items: dict[Any, _Json] = field(default_factory=dict)
    """Items of the Responses API, by their index."""

    def called(self, index: Any, name: Any, arguments: Any) -> None:
        """Add a piece of a call: its name comes once, its arguments bit by bit."""
        call = self.pieces.setdefault(str(index), ["", ""])
        for place, piece in enumerate((name, arguments)):
            if isinstance(piece, str):
                call[place] += piece

    def said(self) -> int:
        """Return the hash of the answer's content, see ``said``."""
        if self.items:
            return said_in([self.items[at] for at in sorted(self.items)])
        pieces = ((name, given) for name, given in self.pieces.values())
        return said("".join(self.text), (*self.calls, *pieces))

    @property
    def is_empty(self) -> bool:
        """Whether the answer has neither text nor tool calls."""
        return not (self.items or self.calls or self.pieces or "".join(self.text).strip())


class Reading(NamedTuple):
    """The two readers of an API's answers. Both raise ValueError for what is no such answer."""

    read: Callable[[ReadAnswer, _Json], None]  #: reader of a whole answer
    read_event: Callable[[ReadAnswer, _Json], None]  #: reader of one event, or line, of a stream


def said(text: str, calls: Iterable[Called]) -> int:
    """Return the hash of an answer's text and tool calls, in whichever spelling a client has them.

    It is the same for the server's answer and for the message that the client sends back, unless
    the client edited it. White space around the text does not count, nor the spelling of calls'
    arguments, nor the ids of calls.
    """
    return hash((text.strip(), *((name, _plain(given)) for name, given in calls)))


def said_in(messages: Iterable[_Json]) -> int:
    """Return the hash (``said``) of an answer, sent back by a client as ``messages`` or items."""
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
    """Return a call's arguments in one spelling: a client may order and escape them anew."""
    try:
        text = given if isinstance(given, str) else json.dumps(given)
        value = json.loads(text or "{}", parse_float=_as_number)
        return json.dumps(value or {}, sort_keys=True)
    except (ValueError, RecursionError, TypeError):
        return str(given)


def _as_number(text: str) -> float:
    """Return the number in ``text``, 1.0 as 1: JavaScript clients write it so."""
    value = float(text)
    return int(value) if value.is_integer() else value
