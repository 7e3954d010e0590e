"""The content blocks of a streamed message: one at a time, in the order in which they began.

Chat deltas may alternate between calls; a message's blocks never overlap. So blocks queue: pieces
of the first block are sent at once, those of the others wait. A block of text or thinking ends when
another block begins; a tool call when its arguments are a whole JSON object and another block
waits; all blocks at the end of the message.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.translate.answer import NAMELESS, AnswerContext
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
# Clients take thinking for finished when its signature comes; chat servers sign nothing.
_UNSIGNED = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":""}}\n\n'  # noqa: E501


@dataclass(slots=True, eq=False)
class _Block:
    """One block: the pieces received of it, and how far they have been sent to the client."""

    kind: BlockKind  #: kind of block
    id: str = ""  #: a call's id, as the client gets it
    given_id: str = ""  #: a call's id, as the server gave it
    name: str = ""  #: name of the tool
    waiting: list[str] = field(default_factory=list)  #: pieces that are not sent yet
    said: list[str] = field(default_factory=list)
    """All pieces of a call's arguments."""
    started: bool = False  #: its start event has been sent
    ended: bool = False  #: its stop event has been sent

    def is_whole(self) -> bool:
        """Whether the next block may begin: after a call, if its arguments are a whole object."""
        if self.kind is not BlockKind.CALL:
            return True
        # The arguments are joined and parsed only if the last piece may end them.
        ends = bool(self.said) and self.said[-1].rstrip().endswith("}")
        return ends and is_object("".join(self.said))


class Blocks:
    """The content blocks of one message: methods take pieces and return the events that are due."""

    def __init__(self, context: AnswerContext, spellings: Spellings) -> None:
        self._context = context
        self._spellings = spellings
        self._queue: deque[_Block] = deque()
        self._calls: dict[int | None, _Block] = {}
        self._index = 0
        self.called = 0
        """Number of tool calls so far."""

    def say(self, kind: BlockKind, piece: str) -> bytes:
        """Add a piece of text or thinking; return the events that can be sent now."""
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
        """Add a piece of a tool call's arguments; return the events that can be sent now.

        ``index``: the call's number in the message, None if the server does not count; ``call_id``
        and ``name``: "" if the delta lacks them. Raises TranslationError if a call goes on after
        its end.
        """
        block = self._calls.get(index)
        if block is None or _is_another(block, call_id, name, counted=index is not None):
            block = _Block(BlockKind.CALL, self._context.call_id(call_id, self.called))
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
        """Return the events that end all blocks; raises TranslationError for a nameless call."""
        events = [self._flow()]
        while self._queue:
            block = self._queue[0]
            if block.kind is BlockKind.CALL and not block.name:
                raise TranslationError(NAMELESS)
            events.append(self._say(block))
            events.append(self._end(block))
        return b"".join(events)

    def _flow(self) -> bytes:
        """Return the events that are due, and end each block that is whole and has a successor."""
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
        """Return the start event of ``block`` if it is due, and a delta of its waiting pieces."""
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
        """Remove ``block`` from the queue; store its call's spelling; return its last events."""
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

    Some servers give all calls the index 0, some give none. A new id with a name then begins
    another call; without ids and indexes, so does a name after whole arguments.
    """
    if not name:
        return False
    if call_id and block.given_id:
        return call_id != block.given_id
    return not counted and not call_id and (block.ended or block.is_whole())
