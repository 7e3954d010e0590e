"""The reasoning in an answer, read once it has ended: whole or streamed, in the client's API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from cacheproxy.core.conversation.conversation import Thought
from cacheproxy.core.dialects.content import calls_in, texts_in
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.reasoning import ReadAnswer
from cacheproxy.core.document.edits import encode
from cacheproxy.core.document.parsed import parsed
from cacheproxy.core.http1.sse import EventReader

Called = tuple[str, Any]
"""A tool's name, and its arguments: the text of a JSON value, or the value."""


def read(dialect: Dialect | None, content_type: str, body: bytes) -> tuple[int, Thought] | None:
    """Return what an answer says (``said``) and the reasoning before it; None for none.

    None, too, where a vendor signed or hid the reasoning, where there are several answers, and
    where it cannot be read. Never raises. ``body``: without any content coding.
    """
    reasoning = None if dialect is None else dialect.reasoning
    if reasoning is None:
        return None
    answer = ReadAnswer()
    try:
        if "event-stream" in content_type.lower():
            for event in _events(body):
                if "error" in event or event.get("type") == "error":
                    break
                reasoning.read_event(answer, event)
        else:
            reasoning.read(answer, _object(body))
    except (ValueError, RecursionError):
        return None
    thought, text = "".join(answer.reasoning), "".join(answer.text)
    calls = [*answer.calls, *((name, given) for name, given in answer.pieces.values())]
    if not thought or not (text.strip() or calls):
        return None
    return said(text, calls), Thought(answer.name, encode(thought))


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    reader = EventReader()
    for event in reader.feed(body + b"\n\n"):
        if event.data.strip() and event.data != b"[DONE]":
            yield _object(event.data)


def _object(data: bytes) -> dict[str, Any]:
    value = parsed(data)
    if not isinstance(value, dict):
        raise ValueError("no object")  # noqa: TRY004 (as what is no JSON)
    return value


def said(text: str, calls: Iterable[Called]) -> int:
    """Return a number for an answer, however a client spells it: for its text and its tool calls.

    The answer as the server gave it and the message as the client sends it back come to the same
    number, unless the client edited it. White space around the text does not count, nor how the
    arguments of calls are spelled, nor the ids of calls.
    """
    return hash((text.strip(), *((name, _plain(given)) for name, given in calls)))


def said_in(message: dict[str, Any]) -> int:
    """Return the same for a message of Chat Completions or Messages."""
    calls = ((call.name, call.arguments) for call in calls_in(message))
    return said("".join(texts_in(message.get("content"))), calls)


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
