"""The reasoning in an answer, read once it has ended: whole or streamed, in the client's API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from cacheproxy.core.conversation.conversation import Thought
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.reasoning import ReadAnswer
from cacheproxy.core.document.edits import encode
from cacheproxy.core.http1.sse import EventReader
from cacheproxy.core.thinking.said import said


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
    """Return a JSON object. Raises ValueError."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):  # a lone surrogate, or no JSON
        value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("no object")  # noqa: TRY004 (as what is no JSON)
    return value
