"""The content blocks of a streamed message: one at a time, in the order in which they began.

Chat deltas may say a bit of this call and a bit of that; a message's blocks never overlap. So
blocks queue. What belongs to the first of them goes on at once, the others wait. Text and thinking
end when something else begins; a tool call when its arguments are a whole JSON object and another
block waits; all of them at the end of the message.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.translate.answer import NAMELESS, Asked
from cacheproxy.translate.reading import TranslationError, is_object, write


class BlockKind(Enum):
    """A kind of block: its delta's type, and the name of the delta's text."""

    TEXT = (b"text_delta", b"text")
    THINKING = (b"thinking_delta", b"thinking")
    CALL = (b"input_json_delta", b"partial_json")


_START = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%s}\n\n'  # noqa: E501
_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":%s}}\n\n'  # noqa: E501
_EMPTY = {
    BlockKind.TEXT: b'{"type":"text","text":""}',
    BlockKind.THINKING: b'{"type":"thinking","thinking":"","signature":""}',
}
# Clients take thinking for finished when its signature comes; nobody here signs.
_UNSIGNED = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":""}}\n\n'  # noqa: E501


@dataclass(slots=True, eq=False)
class _Block:
    """One block: what has been said of it, and how much of that went on already."""

    kind: BlockKind  #: of block
    id: str = ""  #: of a call, as the client gets it
    given_id: str = ""  #: of a call, as the server gave it
    name: str = ""  #: of the tool
    waiting: list[str] = field(default_factory=list)  #: pieces that have not gone on
    said: list[str] = field(default_factory=list)
    """All pieces of a call's arguments."""
    started: bool = False  #: its first event has gone on
    ended: bool = False  #: nothing more comes

    def is_whole(self) -> bool:
        """Whether a block that came after it may begin."""
        if self.kind is not BlockKind.CALL:
            return True
        # Only where the last piece could be an end is the text put together and read.
        ends = bool(self.said) and self.said[-1].rstrip().endswith("}")
        return ends and is_object("".join(self.said))


class Blocks:
    """Makes the events of content blocks. The methods return what can go to the client now."""

    def __init__(self, asked: Asked, spellings: Spellings) -> None:
        self._asked = asked
        self._spellings = spellings
        self._queue: deque[_Block] = deque()
        self._calls: dict[int | None, _Block] = {}
        self._index = 0
        self.called = 0
        """How many tool calls there were."""

    def say(self, kind: BlockKind, piece: str) -> bytes:
        """Take a piece of text or thinking."""
        if not piece:
            return b""
        if self._queue and self._queue[-1].kind is kind:
            block = self._queue[-1]
        else:
            block = _Block(kind)
            self._queue.append(block)
        block.waiting.append(piece)
        return self._flow()

    def call(self, index: int | None, call_id: str, name: str, piece: str) -> bytes:
        """Take a piece of a tool call's arguments.

        ``index``: which call of the message, None if the server does not count; ``call_id`` and
        ``name``: "" where this delta does not say. Raises TranslationError if a call goes on
        after its end.
        """
        block = self._calls.get(index)
        if block is None or _is_another(block, call_id, name, counted=index is not None):
            block = _Block(BlockKind.CALL, self._asked.call_id(call_id, self.called))
            self.called += 1
            self._calls[index] = block
            self._queue.append(block)
        if call_id and not block.given_id:
            block.given_id = call_id
            if not block.started:
                block.id = call_id
        block.name = block.name or name
        if piece and block.ended:
            if piece.strip():
                raise TranslationError("the server went on with a tool call after its end")
            return b""
        if piece:
            block.waiting.append(piece)
            block.said.append(piece)
        return self._flow()

    def close(self) -> bytes:
        """End all blocks. Raises TranslationError for a call without a name."""
        events = [self._flow()]
        while self._queue:
            block = self._queue[0]
            if block.kind is BlockKind.CALL and not block.name:
                raise TranslationError(NAMELESS)
            events.append(self._say(block))
            events.append(self._end(block))
        return b"".join(events)

    def _flow(self) -> bytes:
        events = b""
        while self._queue:
            block = self._queue[0]
            if block.kind is BlockKind.CALL and not block.name:
                break
            events += self._say(block)
            if len(self._queue) == 1 or not block.is_whole():
                break
            events += self._end(block)
        return events

    def _say(self, block: _Block) -> bytes:
        """Begin ``block`` if it has not begun, and say what waits of it."""
        events = b""
        if not block.started:
            block.started = True
            empty = _EMPTY.get(block.kind) or write(
                {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
            )
            events = _START % (self._index, empty)
        if block.waiting:
            kind, name = block.kind.value
            events += _DELTA % (self._index, kind, name, write("".join(block.waiting)))
            block.waiting.clear()
        return events

    def _end(self, block: _Block) -> bytes:
        block.ended = True
        self._queue.popleft()
        index = self._index
        self._index += 1
        if block.kind is BlockKind.CALL:
            text = "".join(block.said)
            block.said.clear()
            if is_object(text):
                self._spellings.keep(block.id, text)
        elif block.kind is BlockKind.THINKING:
            return _UNSIGNED % index + _STOP % index
        return _STOP % index


def _is_another(block: _Block, call_id: str, name: str, *, counted: bool) -> bool:
    """Whether a delta at the index of ``block`` begins another call.

    Some servers give all calls the index 0, some give none; then a new id with a name tells, and
    without ids a name after whole arguments.
    """
    if not name:
        return False
    if call_id and block.given_id:
        return call_id != block.given_id
    return not counted and not call_id and (block.ended or block.is_whole())
