"""A stream of chat completion chunks as a stream of message events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.http1.ending import CUT
from cacheproxy.core.http1.sse import Event, EventReader
from cacheproxy.translate.messages.asked import Asked
from cacheproxy.translate.messages.blocks import Blocks, Kind
from cacheproxy.translate.messages.ending import stop_reason, usage_for
from cacheproxy.translate.messages.errors import error_event, is_error
from cacheproxy.translate.reading import (
    arguments_of,
    choice_of,
    plain_text,
    read,
    thinking_of,
)
from cacheproxy.translate.translation import TranslationError
from cacheproxy.translate.writing import write

_COMMENT = re.compile(rb"(?<=[\r\n]):")
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOPPED = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class _Life(Enum):
    """Where the stream is."""

    HEAD = auto()  # nothing has come
    BODY = auto()  # the message has begun
    TAIL = auto()  # a finish reason was given; usage may follow
    ENDED = auto()
    FAILED = auto()  # the server said that it failed, and the client was told


class _Sign(Enum):
    """What an event of the server means for the life of the stream."""

    CHUNK = auto()
    FINISH = auto()  # a chunk with a finish reason
    DONE = auto()  # data: [DONE]
    ERROR = auto()
    CLOSE = auto()  # the body has ended


_NEXT = {
    (_Life.HEAD, _Sign.CHUNK): _Life.BODY,
    (_Life.HEAD, _Sign.FINISH): _Life.TAIL,
    (_Life.HEAD, _Sign.ERROR): _Life.FAILED,
    (_Life.BODY, _Sign.CHUNK): _Life.BODY,
    (_Life.BODY, _Sign.FINISH): _Life.TAIL,
    (_Life.BODY, _Sign.ERROR): _Life.FAILED,
    (_Life.TAIL, _Sign.CHUNK): _Life.TAIL,
    (_Life.TAIL, _Sign.FINISH): _Life.TAIL,
    (_Life.TAIL, _Sign.ERROR): _Life.FAILED,
    (_Life.TAIL, _Sign.DONE): _Life.ENDED,
    (_Life.TAIL, _Sign.CLOSE): _Life.ENDED,
    **{(_Life.ENDED, sign): _Life.ENDED for sign in _Sign},
    **{(_Life.FAILED, sign): _Life.FAILED for sign in _Sign},
}
"""What is not here is no stream: it ended, by ``[DONE]`` or its body's end, without a reason."""


class MessageStream:
    """The transform: ``feed`` the server's bytes, ``close`` when its body has ended.

    ``message_start`` comes with the first chunk; its usage is two zeros, which the API needs: chat
    servers count at the end, so the figures stand in ``message_delta``, where SDKs take them from.
    A comment becomes a ``ping`` (and the server's own ``ping`` events too). Arguments of calls go
    on byte for byte; those that are no JSON are the client's to find so. A server's error becomes
    an ``error`` event, after which nothing more comes and ``close`` is content.

    What makes no sense raises TranslationError, after all that made sense was handed out: in the
    next call.
    """

    def __init__(self, asked: Asked, spellings: Spellings) -> None:
        self._asked = asked
        self._blocks = Blocks(asked, spellings)
        self._events = EventReader()
        self._life = _Life.HEAD
        self._usage = Usage()
        self._last: dict[str, Any] = {}
        """The choice that had the finish reason."""
        self._refused = False
        self._at_line_start = True
        self._wrong: TranslationError | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the events that ``data`` completes."""
        if self._wrong is not None:
            raise self._wrong
        events: list[bytes] = []
        try:
            for begins_comment, piece in self._pieces(data):
                if begins_comment:
                    events.append(self._ping())
                for event in self._events.feed(piece):
                    events.append(self._event(event))  # noqa: PERF401 (one may raise)
        except TranslationError as error:
            self._wrong = error
        return b"".join(events)

    def close(self) -> bytes:
        """Return the rest. Raises TranslationError if the stream was not whole."""
        if self._wrong is not None:
            raise self._wrong
        return self._move(_Sign.CLOSE)

    def _pieces(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """Cut ``data`` before each comment; yield (it begins with one, piece)."""
        if not data:
            return
        starts = [found.start() for found in _COMMENT.finditer(data)]
        begins_comment = self._at_line_start and data.startswith(b":")
        self._at_line_start = data.endswith((b"\n", b"\r"))
        begin = 0
        for start in starts:
            yield begins_comment, data[begin:start]
            begin, begins_comment = start, True
        yield begins_comment, data[begin:]

    def _ping(self) -> bytes:
        return b"" if self._life in (_Life.ENDED, _Life.FAILED) else _PING

    def _event(self, event: Event) -> bytes:
        if event.type == b"ping":
            return self._ping()
        if event.data == b"[DONE]":
            return self._move(_Sign.DONE)
        if not event.data.strip() or self._life in (_Life.ENDED, _Life.FAILED):
            return b""
        if event.type == b"error":
            return self._move(_Sign.ERROR) + error_event(_read_or_text(event.data))
        value = read(event.data)
        if not isinstance(value, dict):
            raise TranslationError("the server sent an event that is no object")
        if is_error(value):
            return self._move(_Sign.ERROR) + error_event(value)
        return self._chunk(value)

    def _chunk(self, value: dict[str, Any]) -> bytes:
        start = self._start(value) if self._life is _Life.HEAD else b""
        if "usage" in value or "timings" in value:
            self._usage = self._usage.merged(usage_of(value))
        choice = choice_of(value)
        if choice is None:
            return start + self._move(_Sign.CHUNK)
        delta = choice.get("delta")
        events = start + (self._delta(delta) if isinstance(delta, dict) else b"")
        if not choice.get("finish_reason"):  # some say "" where others say null
            return events + self._move(_Sign.CHUNK)
        self._last = choice
        return events + self._move(_Sign.FINISH)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        say, call = self._blocks.say, self._blocks.call
        events = say(Kind.THINKING, thinking_of(delta)) + say(
            Kind.TEXT, plain_text(delta.get("content"))
        )
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            events += say(Kind.TEXT, refusal)
        calls = delta.get("tool_calls")
        for one in calls if isinstance(calls, list) else ():
            if isinstance(one, dict):
                index = one.get("index")
                counted = index if type(index) is int else None
                events += call(counted, _text(one.get("id")), *_function(one.get("function")))
        if isinstance(delta.get("function_call"), dict):
            events += call(0, "", *_function(delta["function_call"]))
        return events

    def _move(self, sign: _Sign) -> bytes:
        following = _NEXT.get((self._life, sign))
        if following is None:
            raise TranslationError(CUT)
        ends = following is _Life.ENDED and self._life is not _Life.ENDED
        events = self._end() if ends else b""
        self._life = following
        return events

    def _start(self, value: dict[str, Any]) -> bytes:
        model = value.get("model")
        message: dict[str, Any] = {
            "id": self._asked.message_id(value.get("id")),
            "type": "message",
            "role": "assistant",
            "model": model if isinstance(model, str) and model else self._asked.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return _named(b"message_start", {"type": "message_start", "message": message})

    def _end(self) -> bytes:
        reason, sequence = stop_reason(
            self._last, self._asked, called=bool(self._blocks.called), refused=self._refused
        )
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        last = {"type": "message_delta", "delta": delta, "usage": usage_for(self._usage)}
        return self._blocks.close() + _named(b"message_delta", last) + _STOPPED


def _named(name: bytes, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name, write(value))


def _function(function: Any) -> tuple[str, str]:
    """Return (name, piece of the arguments) of a call's delta."""
    if not isinstance(function, dict):
        return "", ""
    return _text(function.get("name")), arguments_of(function)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _read_or_text(data: bytes) -> Any:
    try:
        return read(data)
    except TranslationError:
        return data.decode(errors="replace")
