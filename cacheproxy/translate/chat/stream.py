"""A stream of message events as a stream of chat completion chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.http1.ending import CUT
from cacheproxy.core.http1.sse import Event
from cacheproxy.translate.chat.asked import Asked
from cacheproxy.translate.chat.ending import finish_reason, usage_for
from cacheproxy.translate.chat.errors import error_event, is_error
from cacheproxy.translate.common.body import Body
from cacheproxy.translate.common.reading import Json, read, string_in, tool_named
from cacheproxy.translate.common.stream import EventStream
from cacheproxy.translate.common.translation import TranslationError
from cacheproxy.translate.common.writing import write

_DONE = b"data: [DONE]\n\n"
_RUNNING = b',"finish_reason":null}]}\n\n'


_SAID = {"text_delta": "text", "thinking_delta": "thinking"}
_FIELDS = {"text": b"content", "thinking": b"reasoning_content"}


class ChunkStream(EventStream):
    """The transform: ``feed`` the server's bytes, ``close`` when its body has ended.

    A ``ping`` becomes a comment, a comment stays one. Arguments of calls go on byte for byte; a
    call without any has ``{}``. The usage comes with ``message_stop``, if the client asked for it.
    Events that are new to us are left out. A server's error becomes ``data: {"error": …}``, on
    which OpenAI's SDKs raise; after it nothing more comes and ``close`` is content.
    """

    PING = b": ping\n\n"

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._asked = asked
        self._head = b""
        """The beginning of every chunk, as far as its delta; empty before the message begins."""
        self._calls: dict[int, _Call] = {}
        """By the index of the block; a block that is no call is not here."""
        self._finished = False
        self._usage = Usage()

    def event(self, event: Event) -> bytes:
        """Return the chunks for an event of the server. Raises TranslationError."""
        data = event.data
        if self.is_over or not data or data == b"[DONE]":
            return b""
        value = read(data)
        if not isinstance(value, dict):
            raise TranslationError("the server sent an event that is no object")
        kind = value.get("type")
        turn = self._TURNS.get(kind) if isinstance(kind, str) else None
        if turn is not None:
            if (kind == "message_start") == bool(self._head):
                raise TranslationError("the server's events are not in their order")
            return turn(self, value, data)
        if is_error(value):
            self.is_over = True
            return error_event(value)
        return self.ping() if kind == "ping" else b""

    def end(self) -> bytes:
        """Refuse: the message ends with ``message_stop``. Raises TranslationError."""
        raise TranslationError(CUT)

    def _start(self, value: Json, _: bytes) -> bytes:
        self._count(value)
        message = value.get("message")
        said = message if isinstance(message, dict) else {}
        about = {
            "id": self._asked.answer_id(said.get("id")),
            "object": "chat.completion.chunk",
            "created": self._asked.created,
            "model": self._asked.model_of(said),
        }
        self._head = b"data: %s," % write(about)[:-1]
        return self._chunk(b'{"role":"assistant","content":null}')

    def _begin(self, value: Json, data: bytes) -> bytes:
        block = value.get("content_block")
        if not isinstance(block, dict):
            return b""
        if block.get("type") == "tool_use":
            return self._call(_index(value), block, data)
        return self._say(string_in(block.get("type")), block)

    def _call(self, index: int, block: Json, data: bytes) -> bytes:
        name = tool_named(block)
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
        kind = string_in(delta.get("type"))
        if kind == "input_json_delta":
            call = self._calls.get(_index(value))
            return self._arguments(call, string_in(delta.get("partial_json"))) if call else b""
        return self._say(_SAID.get(kind, ""), delta)

    def _say(self, kind: str, holder: Json) -> bytes:
        """Return the chunk for a piece of text or thinking, which ``holder`` has under ``kind``."""
        field = _FIELDS.get(kind)
        piece = string_in(holder.get(kind)) if field else ""
        return self._chunk(b'{"%s":%s}' % (field, write(piece))) if field and piece else b""

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
        self.is_over = True
        usage = b""
        said = usage_for(self._usage) if self._asked.usage else None
        if said is not None:
            usage = b'%s"choices":[],"usage":%s}\n\n' % (self._head, write(said))
        return self._last(None) + usage + _DONE

    def _count(self, value: Json) -> None:
        self._usage = self._usage.merged(usage_of(value))

    def _chunk(self, delta: bytes) -> bytes:
        return b'%s"choices":[{"index":0,"delta":%s%s' % (self._head, delta, _RUNNING)

    _TURNS: ClassVar[dict[str, Callable[[ChunkStream, Json, bytes], bytes]]] = {
        "message_start": _start,
        "content_block_start": _begin,
        "content_block_delta": _delta,
        "content_block_stop": _end,
        "message_delta": _finish,
        "message_stop": _stop,
    }
    """What becomes of each event."""


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
