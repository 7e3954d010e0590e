"""The reader of an answer's usage, failure and end, as its bytes pass."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from cacheproxy.core.conversation.usage import NOTHING, Usage, usage_of
from cacheproxy.core.dialects.dialects import DIALECTS, USAGES
from cacheproxy.core.dialects.failing import CONTENT, failure_in, has_content
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.http1.content_coding import CodingError, Unpacker, are_known
from cacheproxy.core.http1.ending import Ending
from cacheproxy.core.http1.splitting import Splitter
from cacheproxy.core.http1.sse import Event

_LONGEST_MESSAGE = 4 << 20
"""Bytes of an unstreamed answer, line or event at most, for its usage to be read."""
_MOST_UNPACKED = 64 << 20
"""Bytes of a decompressed body at most."""
_MOST_AT_ONCE = 1 << 20
"""Bytes of one decompressed piece at most: more would block the reactor too long."""
_ERROR = b'"error"'
_FAILS = (b'"incomplete"', b'"failed"', b'"cancelled"', b'"blockReason"')
"""Texts of which a message that reports a failure has at least one, if it has no ``_ERROR``."""
_FAILING = re.compile(b"|".join((_ERROR, *_FAILS)))
_CALLING = re.compile(rb'"(?:stop|finish)_reason":\s*"tool_|"type":\s*"function_call"')
"""Text of an answer that ends with calls of tools, in its last ``_LAST`` bytes."""
_MARKS = [each.end for each in DIALECTS if each.end is not None]
_DONE = frozenset(each.done for each in _MARKS if each.done)
_ENDS = frozenset(name.encode() for each in _MARKS for name in each.events)
"""Types of the events that end a stream; ``_DONE``: data of such events."""
_HINTS = (b'"timings"', *{each.hint for each in USAGES if each.hint}, *_FAILS)
"""Texts in messages with counts outside of "usage", and in failures; such come last."""
_AT_END = (*_DONE, *(b'"%b"' % name for name in _ENDS))
"""Texts in the last ``_TAIL`` bytes of an end without counts; other ends have these anyway."""
_TAIL = 64
_LAST = 4 << 10
"""Last bytes of a body, whose messages are searched for ``_HINTS`` and ends, too: each search costs
a quarter of what the relaying costs."""
_SHORT = 8 << 10
"""Bytes of an answer without content at most: its opening and end take fewer."""
_MOST_READ, _MOST_WAITING, _LONGEST_WAITING = 64, 8, 16 << 10
"""Number of events with counts that are read as they come; of later ones that wait to be read; and
bytes of one of these at most."""
_TOGETHER = 4 << 10
"""Bytes below which pieces wait to be read together: for one event, the calls cost most."""


class UsageReader:
    """The reader of usage in a response body as it passes: SSE, JSON lines, or one JSON value.

    ``feed(bytes)`` with a copy of each chunk, then ``close()``. It never raises: an unreadable body
    has no usage. ``content_type``: that of the response; ``codings``: content codings of the body.
    ``ending``: search for the answer's end, if nothing else shows that the body is whole.
    ``failure``: the error that the answer reports before its end, None without one. ``is_page``:
    whether the body is a web page, and no answer.
    """

    def __init__(
        self, content_type: str, *, codings: Sequence[bytes] = (), ending: Ending | None = None
    ) -> None:
        self.is_page = "html" in content_type.lower()
        self.failure: Mapping[str, Any] | None = None
        self._has_ended = False
        self._kind = content_type
        self._first: bytearray | None = bytearray()
        self._usage = NOTHING
        self._ending = None if codings else ending  # the last bytes may still be in the decoder
        self._messages = Splitter(content_type, _LONGEST_MESSAGE)
        self._counted = 0
        self._unread: deque[Event] = deque(maxlen=_MOST_WAITING)
        self._waiting = bytearray()
        self._tail = b""
        is_read = "json" in content_type.lower() or self._messages.is_stream
        self._off = not is_read or (bool(codings) and not are_known(codings))
        self._unpacker = Unpacker(codings, _MOST_UNPACKED) if codings and not self._off else None

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the body."""
        if self._off:
            return
        if self._unpacker is not None:
            data = self._unpacked(self._unpacker, data)
        if self._first is not None:
            self._first += data
            if len(self._first) > _SHORT:
                self._first = None
        if self._messages.is_one:
            self._messages.feed(data)
        elif len(self._waiting) + len(data) < _LAST + _TOGETHER:
            self._waiting += data
        else:
            self._look_early(data)

    def close(self) -> Usage:
        """Return the usage once the body has ended, whole or cut off."""
        self._look_last()
        if self._unread:
            self._release()
        if not self._messages.is_stream:
            for message in self._messages.rest():
                self._take(message)
        return self._usage

    @property
    def is_silent(self) -> bool:
        """Whether the body, which has ended, has neither text nor reasoning nor a call in it."""
        if self._off or self._first is None or CONTENT.search(self._first):
            return False
        splitter = Splitter(self._kind, _SHORT)
        found = splitter.feed(bytes(self._first)) + splitter.rest()
        values = [parsed(one.data) for one in found if one.data.strip() not in (b"", *_DONE)]
        return not any(value is None or has_content(value) for value in values)

    @property
    def calls_tools(self) -> bool | None:
        """Whether the answer, all of which has come, ends with calls of tools; None: not known."""
        if self._off:
            return None
        self._look_last()
        whole = self._messages.rest() if self._messages.is_one else ()
        tail = whole[0].data if whole else self._tail
        return bool(_CALLING.search(tail)) if tail else None

    @property
    def is_cut(self) -> bool:
        """Whether the body, which has ended, lacks its dialect's end; False if it is unreadable."""
        ending = self._ending
        if self._off or ending is None:
            return False
        self._look_last()
        rest = self._messages.rest()
        if self._messages.is_one:
            return bool(rest) and not _is_json(rest[0].data)
        if not (rest or self._messages.is_stream):
            return False
        for message in rest:
            self._read(message, _may_tell)
        return not ending.is_seen

    def _unpacked(self, unpacker: Unpacker, data: bytes) -> bytes:
        """Return ``data`` decompressed; nothing from the first broken or too large piece on."""
        found = bytearray()
        try:
            for piece in unpacker.feed(data):
                found += piece
                if len(found) > _MOST_AT_ONCE:
                    break
            else:
                return bytes(found)
        except CodingError:
            pass
        self._off = True
        return b""

    def _look_early(self, data: bytes = b"") -> None:
        """Look at the received messages, except for those in the last ``_LAST`` bytes."""
        data = bytes(self._waiting) + data
        self._waiting[:] = data[-_LAST:]
        self._look(data[:-_LAST], _may_tell_early)

    def _look_last(self) -> None:
        """Look at all received messages: no more come."""
        if len(self._waiting) > _LAST:
            self._look_early()
        if self._waiting:
            self._tail = bytes(self._waiting)
            self._waiting.clear()
            self._look(self._tail, _may_tell)

    def _look(self, data: bytes, may_matter: Callable[[bytes], bool]) -> None:
        """Read those messages that may matter, by ``may_matter`` or as the end; most do not."""
        ending = self._ending
        only = (
            may_matter
            if ending is None
            else lambda text: may_matter(text) or ending.may_be_in(text)
        )
        for message in self._messages.feed(data, only):
            self._read(message, may_matter)

    def _read(self, message: Event, may_matter: Callable[[bytes], bool]) -> None:
        """Read a message, or let it wait: of many with counts, the last ones have the totals.

        Servers that count in every event would otherwise cost in proportion to the answer.
        """
        text = message.data
        is_long = len(text) > _LONGEST_MESSAGE
        if self._ending is not None:
            self._ending.see(message.type, b"" if is_long else text)
        if is_long or not may_matter(text):
            return
        self._counted += 1
        is_read = self._counted <= _MOST_READ or len(text) > _LONGEST_WAITING
        if is_read or self._ending is not None:
            if self._unread:
                self._release()
            self._take(message)
        else:
            self._unread.append(message)

    def _release(self) -> None:
        """Read the waiting messages, before any later one."""
        while self._unread:
            self._take(self._unread.popleft())

    def _take(self, message: Event) -> None:
        text = message.data
        if text in _DONE:
            self._has_ended = True
        elif _may_tell(text):
            try:
                value = msgspec.json.decode(text)
            except (ValueError, RecursionError):  # msgspec refuses more than the standard library
                value = parsed(text)
            if not self._has_ended and self.failure is None and _FAILING.search(text):
                self.failure = failure_in(value)
            self._has_ended = self._has_ended or message.type in _ENDS
            found = usage_of(value)
            self._usage = found if self._usage is NOTHING else self._usage.merged(found)


def _may_tell_early(text: bytes) -> bool:
    """Whether ``text`` may have usage or an error. Most events have none, or a null."""
    if _ERROR in text:
        return True
    usages = text.count(b'"usage"')
    return usages > 0 and usages > text.count(b'"usage":null') + text.count(b'"usage": null')


def _may_tell(text: bytes) -> bool:
    """Whether ``text`` may have usage, a failure or an end.

    One of these keys is in all messages that ``usage_of`` finds counts in. Long words are found
    faster than short ones.
    """
    if _may_tell_early(text):
        return True
    for hint in _HINTS:
        if hint in text:
            return True
    tail = text[-_TAIL:]
    for end in _AT_END:  # noqa: SIM110 (any() would make a generator for each event)
        if end in tail:
            return True
    return False


def _is_json(text: bytes | bytearray) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return True  # its depth is no proof that it is cut off
    except ValueError:
        return False
    return True
