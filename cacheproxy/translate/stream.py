"""A stream of chat completion chunks as a stream of message events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.dialects.stream import CUT, is_error
from cacheproxy.core.http1.sse import Event, EventReader
from cacheproxy.translate.answer import AnswerContext, error_event, stop_reason, usage_for
from cacheproxy.translate.blocks import BlockKind, Blocks
from cacheproxy.translate.reading import (
    Json,
    TranslationError,
    choice_of,
    function_in,
    plain_text,
    read,
    string_in,
    thinking_of,
    write,
)

_COMMENT = re.compile(rb"(?<=[\r\n]):")
COMMENT = b""
"""Marker among the pieces of a stream: a comment begins with the next piece."""
_STOPPED = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class CommentFinder:
    """The finder of comment lines in a stream: it cuts before each and marks it by ``COMMENT``.

    The pieces joined are the stream, however it was chunked.
    """

    def __init__(self) -> None:
        self._at_line_start = True

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces of ``data``, and ``COMMENT`` before each piece that begins a comment."""
        if not data:
            return
        if self._at_line_start and data.startswith(b":"):
            yield COMMENT
        self._at_line_start = data.endswith((b"\n", b"\r"))
        begin = 0
        if b":" in data:
            for found in _COMMENT.finditer(data):
                yield data[begin : found.start()]
                yield COMMENT
                begin = found.start()
        yield data[begin:]


class MessageStream:
    """The transform: ``feed`` the server's bytes, ``close`` when its body has ended.

    ``message_start`` comes with the first chunk; its usage is two zeros, which the API needs: chat
    servers count at the end, so the figures are in ``message_delta``, from which SDKs take them.
    A comment becomes a ``ping``, as does the server's own ``ping`` event. Arguments of calls are
    sent byte for byte; the client finds out if they are no JSON. A server's error becomes an
    ``error`` event, after which ``feed`` and ``close`` return nothing.

    An event that makes no sense raises TranslationError in the call after the one that returned
    the events before it.
    """

    def __init__(self, context: AnswerContext, spellings: Spellings) -> None:
        self._context = context
        self._events = EventReader()
        self._comments = CommentFinder()
        self._blocks = Blocks(context, spellings)
        self._has_begun = False
        self._is_over = False
        """Whether the answer has ended, by its last event or an ``error`` event."""
        self._wrong: TranslationError | None = None
        self._usage = Usage()
        self._last: Json | None = None
        """The choice with the finish reason; usage may follow."""
        self._refused = False

    def feed(self, data: bytes) -> bytes:
        """Return the events that ``data``, any piece of the server's stream, completes."""
        if self._wrong is not None:
            raise self._wrong
        events: list[bytes] = []
        try:
            for piece in self._comments.cut(data):
                if piece == COMMENT:
                    events.append(self._ping())
                for event in self._events.feed(piece):
                    events.append(self._event(event))  # noqa: PERF401 (one may raise)
        except TranslationError as error:
            self._wrong = error
        return b"".join(events)

    def close(self) -> bytes:
        """Return the last events. Raises TranslationError if the stream was not whole.

        The proxy then aborts the client's response, so that a part is never taken for the whole.
        """
        if self._wrong is not None:
            raise self._wrong
        return b"" if self._is_over else self._end()

    def _ping(self) -> bytes:
        return b"" if self._is_over else b'event: ping\ndata: {"type":"ping"}\n\n'

    def _event(self, event: Event) -> bytes:
        """Return the client's events for an event of the server. Raises TranslationError."""
        if self._is_over:
            return b""
        if event.type == b"ping":
            return self._ping()
        if event.data == b"[DONE]":
            return self._end()
        if not event.data.strip():
            return b""
        failed = event.type == b"error"
        try:
            value = read(event.data)
        except TranslationError:
            if not failed:
                raise
            value = event.data.decode(errors="replace")
        if not failed and not isinstance(value, dict):
            raise TranslationError("the server sent an event that is no object")
        if failed or is_error(value):
            self._is_over = True
            return error_event(value)
        events = b"" if self._has_begun else self._start_event(value)
        self._has_begun = True
        if "usage" in value or "timings" in value:
            self._usage = self._usage.merged(usage_of(value))
        choice = choice_of(value)
        if choice is None:
            return events
        if choice.get("finish_reason"):  # some servers send "" instead of null
            self._last = choice
        delta = choice.get("delta")
        return events + (self._delta_events(delta) if isinstance(delta, dict) else b"")

    def _end(self) -> bytes:
        """Return the message's last events. Raises TranslationError without a finish reason."""
        if self._last is None:
            raise TranslationError(CUT)
        self._is_over = True
        reason, sequence = stop_reason(
            self._last, self._context, called=bool(self._blocks.called), refused=self._refused
        )
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        last = {"type": "message_delta", "delta": delta, "usage": usage_for(self._usage)}
        return self._blocks.close() + _as_event(b"message_delta", last) + _STOPPED

    def _delta_events(self, delta: Json) -> bytes:
        """Return the events for a choice's ``delta``: thinking, text, refusal, calls."""
        say, call = self._blocks.say, self._blocks.call
        events = say(BlockKind.THINKING, thinking_of(delta)) + say(
            BlockKind.TEXT, plain_text(delta.get("content"))
        )
        refusal = string_in(delta.get("refusal"))
        if refusal:
            self._refused = True
            events += say(BlockKind.TEXT, refusal)
        calls = delta.get("tool_calls")
        for one in calls if isinstance(calls, list) else ():
            if isinstance(one, dict):
                index = one.get("index")
                counted = index if type(index) is int else None
                events += call(counted, string_in(one.get("id")), *function_in(one.get("function")))
        if isinstance(delta.get("function_call"), dict):
            events += call(0, "", *function_in(delta["function_call"]))
        return events

    def _start_event(self, value: Json) -> bytes:
        usage = {"input_tokens": 0, "output_tokens": 0}
        message = self._context.message(value, [], (None, None), usage)
        return _as_event(b"message_start", {"type": "message_start", "message": message})


def _as_event(name: bytes, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name, write(value))
