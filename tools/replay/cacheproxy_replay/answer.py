"""The generated text of an answer, in whichever dialect and form it comes.

Sources: the API references of OpenAI Chat Completions and Responses, Anthropic Messages, Ollama's
``docs/api.md``. Text, reasoning and tool calls all count as generated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cacheproxy.core.http1.headers import values
from cacheproxy.core.http1.sse import EventReader
from cacheproxy.record.exchange import Exchange

_DELTAS = ("content", "reasoning_content", "reasoning", "text", "thinking", "partial_json")


class AnswerReader:
    """Collects the text as the body passes: ``feed(bytes)``, ``text``, ``close()``.

    Never raises; what it cannot read has no text. ``content_type`` is the response's.
    """

    def __init__(self, content_type: str) -> None:
        self._events = EventReader() if "event-stream" in content_type.lower() else None
        self._lines = "ndjson" in content_type.lower()
        self._rest = b""
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What has been generated so far."""
        return "".join(self._pieces)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        if self._events is not None:
            for event in self._events.feed(data):
                self._read(event.data)
            return
        self._rest += data
        if self._lines:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._read(line)

    def close(self) -> str:
        """Return all the text once the body has ended."""
        self._read(self._rest)
        self._rest = b""
        return self.text

    def _read(self, data: bytes) -> None:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict):
            self._pieces.extend(_texts(message))


def text_of(exchange: Exchange) -> str:
    """Return what was generated in an answer."""
    kind = b"".join(values(exchange.response_headers, b"content-type")[:1])
    reader = AnswerReader(kind.decode("latin-1"))
    reader.feed(exchange.response_body or b"")
    return reader.close()


def _texts(message: dict[str, Any]) -> Iterator[str]:
    """The text in one event, or in a whole answer."""
    kind = message.get("type")
    delta = message.get("delta")
    if isinstance(kind, str) and kind.startswith("response."):
        if kind.endswith(".delta") and isinstance(delta, str):  # ".done" says it again
            yield delta
        return
    choices = message.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            yield from _said(choice.get("delta") or choice.get("message") or choice)
    if kind == "content_block_start":
        yield from _said(message.get("content_block"))
    yield from _said(delta)
    if kind == "message":
        yield from _said(message)
    if message.get("object") == "response":
        for item in message.get("output") or ():
            yield from _said(item)
    yield from _said(message.get("message") if "choices" not in message else None)
    for key in ("response", "content"):  # Ollama's /api/generate, llama-server's /completion
        if kind is None and isinstance(message.get(key), str):
            yield message[key]


def _said(value: Any) -> Iterator[str]:
    """The text of a delta, a message, or a block."""
    if not isinstance(value, dict):
        return
    for key in _DELTAS:
        inner = value.get(key)
        if isinstance(inner, str):
            yield inner
        for block in inner if isinstance(inner, list) else ():
            yield from _said(block)
    calls = value.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield from _called(call.get("function") if isinstance(call, dict) else None)
    if value.get("type") in ("tool_use", "function_call"):
        yield from _called(value)


def _called(function: Any) -> Iterator[str]:
    if not isinstance(function, dict):
        return
    for key in ("name", "arguments", "input"):
        inner = function.get(key)
        if isinstance(inner, str):
            yield inner
        elif inner:
            yield json.dumps(inner, ensure_ascii=False)
