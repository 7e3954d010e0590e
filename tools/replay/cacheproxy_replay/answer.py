"""One captured request sent again, its answer read as it comes, and each way that fails.

The generated text is read in whichever dialect and form it comes. Sources: the API references of
OpenAI Chat Completions and Responses, Anthropic Messages, Ollama's ``docs/api.md``. Text, reasoning
and tool calls all count as generated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any

from cacheproxy.asking import Answer, CommandError, NoAnswerError, Site, explain, reason_of
from cacheproxy.core.conversation.usage import UsageReader
from cacheproxy.core.http1.headers import values
from cacheproxy.core.http1.sse import EventReader
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange

_DELTAS = ("content", "reasoning_content", "reasoning", "text", "thinking", "partial_json")
_LONGEST_ERROR = 1 << 16
"""Bytes of an answer that is not 200: its error text is near the start."""


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


def send(site: Site, request: Request, record: Exchange) -> None:
    """POST ``request`` to the server at ``site``; fill in ``record`` as the answer comes.

    Its first byte counts as come with the first generated text, at the end if there is none.
    Raises CommandError if nobody is there.
    """
    try:
        connection = site.connect()
    except NoAnswerError as error:
        raise nobody_at(site, error) from None
    start = time.perf_counter()
    with closing(connection):
        try:
            response = site.begin(connection, "POST", request.target, request.body)
            record.status = response.status
            if response.status == 200:
                _read(response, start, record)
            else:
                said = Answer(response.status, response.read(_LONGEST_ERROR))
                model = str((request.json or {}).get("model"))
                record.error = explain(said, site.url + request.path, model, "--against")
        except (HTTPException, OSError) as error:
            record.status = None
            record.error = f"{site.url} broke off its answer ({reason_of(error)})."
        record.seconds = time.perf_counter() - start


def nobody_at(site: Site, error: NoAnswerError) -> CommandError:
    """Return the error for people where no connection to ``site`` can be made."""
    mend = "start the model server there, or correct --against."
    return CommandError(f"No answer from {site.url} ({error}): {mend}")


def _read(response: HTTPResponse, start: float, record: Exchange) -> None:
    content_type = response.headers.get("Content-Type", "")
    usage, answer, body = UsageReader(content_type), AnswerReader(content_type), b""
    first = None
    while data := response.read1(1 << 16):
        body += data
        usage.feed(data)
        answer.feed(data)
        if first is None and answer.text:
            first = time.perf_counter() - start
    end = time.perf_counter() - start
    if response.length:  # read1 takes a body cut short for a whole one
        raise IncompleteRead(b"", response.length)
    record.usage, record.first_byte = usage.close(), end if first is None else first
    record.response_headers = ((b"Content-Type", content_type.encode("latin-1")),)
    record.response_body = body
