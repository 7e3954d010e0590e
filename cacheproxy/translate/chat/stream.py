"""A stream of message events as a stream of chat completion chunks."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, ClassVar

from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.http1.ending import CUT
from cacheproxy.core.http1.sse import Event, EventReader
from cacheproxy.translate.chat.asked import Asked
from cacheproxy.translate.chat.ending import finish_reason, usage_for
from cacheproxy.translate.chat.errors import error_event, is_error
from cacheproxy.translate.chat.parts import Json
from cacheproxy.translate.common.body import Body
from cacheproxy.translate.common.comments import COMMENT, CommentFinder
from cacheproxy.translate.common.reading import read
from cacheproxy.translate.common.translation import TranslationError
from cacheproxy.translate.common.writing import write

_PING = b": ping\n\n"
_DONE = b"data: [DONE]\n\n"
_RUNNING = b',"finish_reason":null}]}\n\n'


class _Life(Enum):
    """Where the stream is."""

    HEAD = auto()  # nothing has come
    BODY = auto()  # the message has begun
    ENDED = auto()
    FAILED = auto()  # the server said that it failed, and the client was told


class _Sign(Enum):
    """What an event of the server means for the life of the stream."""

    START = auto()
    PART = auto()  # of the message
    STOP = auto()
    ERROR = auto()
    CLOSE = auto()  # the body has ended


_NEXT = {
    (_Life.HEAD, _Sign.START): _Life.BODY,
    (_Life.HEAD, _Sign.ERROR): _Life.FAILED,
    (_Life.BODY, _Sign.PART): _Life.BODY,
    (_Life.BODY, _Sign.STOP): _Life.ENDED,
    (_Life.BODY, _Sign.ERROR): _Life.FAILED,
    **{(_Life.ENDED, sign): _Life.ENDED for sign in _Sign},
    **{(_Life.FAILED, sign): _Life.FAILED for sign in _Sign},
}
"""What is not here makes no sense: a second beginning, a part before it, an end without one."""


_SAID = {"text_delta": "text", "thinking_delta": "thinking"}


class ChunkStream:
    """The transform: ``feed`` the server's bytes, ``close`` when its body has ended.

    A ``ping`` becomes a comment, a comment stays one. Arguments of calls go on byte for byte; a
    call without any has ``{}``. The usage comes with ``message_stop``, if the client asked for it.
    Events that are new to us are left out. A server's error becomes ``data: {"error": …}``, on
    which OpenAI's SDKs raise; after it nothing more comes and ``close`` is content.

    What makes no sense raises TranslationError, after all that made sense was handed out: in the
    next call.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._events = EventReader()
        self._comments = CommentFinder()
        self._life = _Life.HEAD
        self._head = b""
        """The beginning of every chunk, as far as its delta."""
        self._calls: dict[int, _Call] = {}
        """By the index of the block; a block that is no call is not here."""
        self._finished = False
        self._usage = Usage()
        self._wrong: TranslationError | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the chunks that ``data`` completes."""
        if self._wrong is not None:
            raise self._wrong
        chunks: list[bytes] = []
        try:
            for piece in self._comments.cut(data):
                if piece == COMMENT:
                    chunks.append(self._ping())
                for event in self._events.feed(piece):
                    chunks.append(self._event(event))  # noqa: PERF401 (one may raise)
        except TranslationError as error:
            self._wrong = error
        return b"".join(chunks)

    def close(self) -> bytes:
        """Return the rest: nothing. Raises TranslationError if the stream was not whole."""
        if self._wrong is not None:
            raise self._wrong
        self._move(_Sign.CLOSE)
        return b""

    def _ping(self) -> bytes:
        return b"" if self._life in (_Life.ENDED, _Life.FAILED) else _PING

    def _event(self, event: Event) -> bytes:
        data = event.data
        if self._life in (_Life.ENDED, _Life.FAILED) or not data or data == b"[DONE]":
            return b""
        value = read(data)
        if not isinstance(value, dict):
            raise TranslationError("the server sent an event that is no object")
        kind = value.get("type")
        known = self._TURNS.get(kind) if isinstance(kind, str) else None
        if known is not None:
            sign, turn = known
            self._move(sign)
            return turn(self, value, data)
        if is_error(value):
            self._move(_Sign.ERROR)
            return error_event(value)
        return self._ping() if kind == "ping" else b""

    def _move(self, sign: _Sign) -> None:
        following = _NEXT.get((self._life, sign))
        if following is None:
            if sign is _Sign.CLOSE:
                raise TranslationError(CUT)
            raise TranslationError("the server's events are not in their order")
        self._life = following

    def _start(self, value: Json, _: bytes) -> bytes:
        self._count(value)
        message = value.get("message")
        said = message if isinstance(message, dict) else {}
        model = said.get("model")
        about = {
            "id": self._asked.completion_id(said.get("id")),
            "object": "chat.completion.chunk",
            "created": self._asked.created,
            "model": model if isinstance(model, str) and model else self._asked.model,
        }
        self._head = b"data: %s," % write(about)[:-1]
        return self._chunk(b'{"role":"assistant","content":null}')

    def _begin(self, value: Json, data: bytes) -> bytes:
        block = value.get("content_block")
        if not isinstance(block, dict):
            return b""
        if block.get("type") == "tool_use":
            return self._call(_index(value), block, data)
        return self._say(block.get("type"), block)

    def _call(self, index: int, block: Json, data: bytes) -> bytes:
        name = block.get("name")
        if not isinstance(name, str) or not name:
            raise TranslationError("the server's answer has a tool call without a name")
        number = len(self._calls)
        call = _Call(number)
        if block.get("input"):  # all at once, as some servers give it
            call.rest = Body(data).text_at(("content_block", "input"))
        self._calls[index] = call
        function = {"name": name, "arguments": ""}
        if self._asked.functions:
            return self._chunk(write({"function_call": function})) if number == 0 else b""
        said = {"index": number, "id": self._asked.call_id(block.get("id"), number)}
        return self._chunk(
            write({"tool_calls": [said | {"type": "function", "function": function}]})
        )

    def _delta(self, value: Json, _: bytes) -> bytes:
        delta = value.get("delta")
        if not isinstance(delta, dict):
            return b""
        kind = delta.get("type")
        if kind == "input_json_delta":
            call = self._calls.get(_index(value))
            return self._arguments(call, _text(delta.get("partial_json"))) if call else b""
        return self._say(_SAID.get(kind), delta) if isinstance(kind, str) else b""

    def _say(self, kind: Any, holder: Json) -> bytes:
        """Return the chunk for a piece of text or thinking, which ``holder`` has under ``kind``."""
        if kind == "text":
            piece = _text(holder.get("text"))
            return self._chunk(b'{"content":%s}' % write(piece)) if piece else b""
        if kind == "thinking":
            piece = _text(holder.get("thinking"))
            return self._chunk(b'{"reasoning_content":%s}' % write(piece)) if piece else b""
        return b""

    def _arguments(self, call: _Call, piece: str) -> bytes:
        if not piece:
            return b""
        call.rest = ""
        if not self._asked.functions:
            return self._chunk(
                b'{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}'
                % (call.number, write(piece))
            )
        if call.number:  # the client can take one only
            return b""
        return self._chunk(b'{"function_call":{"arguments":%s}}' % write(piece))

    def _end(self, value: Json, _: bytes) -> bytes:
        call = self._calls.get(_index(value))
        return self._arguments(call, call.rest) if call else b""

    def _finish(self, value: Json, _: bytes) -> bytes:
        self._count(value)
        delta = value.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        return self._last(reason) if reason is not None else b""

    def _last(self, stop_reason: Any) -> bytes:
        if self._finished:
            return b""
        self._finished = True
        reason = finish_reason(
            stop_reason, called=bool(self._calls), functions=self._asked.functions
        )
        return b'%s"choices":[{"index":0,"delta":{},"finish_reason":"%s"}]}\n\n' % (
            self._head,
            reason.encode(),
        )

    def _stop(self, _: Json, __: bytes) -> bytes:
        usage = b""
        said = usage_for(self._usage) if self._asked.usage else None
        if said is not None:
            usage = b'%s"choices":[],"usage":%s}\n\n' % (self._head, write(said))
        return self._last(None) + usage + _DONE

    def _count(self, value: Json) -> None:
        self._usage = self._usage.merged(usage_of(value))

    def _chunk(self, delta: bytes) -> bytes:
        return b'%s"choices":[{"index":0,"delta":%s%s' % (self._head, delta, _RUNNING)

    _TURNS: ClassVar[dict[str, tuple[_Sign, Callable[[ChunkStream, Json, bytes], bytes]]]] = {
        "message_start": (_Sign.START, _start),
        "content_block_start": (_Sign.PART, _begin),
        "content_block_delta": (_Sign.PART, _delta),
        "content_block_stop": (_Sign.PART, _end),
        "message_delta": (_Sign.PART, _finish),
        "message_stop": (_Sign.STOP, _stop),
    }
    """What each event means, and what it becomes."""


class _Call:
    """A tool call: ``rest`` is what its arguments are if no more of them comes."""

    __slots__ = ("number", "rest")

    def __init__(self, number: int) -> None:
        self.number = number
        self.rest = "{}"


def _index(value: Json) -> int:
    index = value.get("index")
    if type(index) is not int:
        raise TranslationError("the server sent a block without an index")
    return index


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
