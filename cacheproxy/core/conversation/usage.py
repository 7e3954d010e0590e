"""What the server says it did: prompt tokens reused and evaluated, tokens generated, speed.

Law 6: the dialects count differently. Anthropic's ``input_tokens`` excludes cached tokens,
OpenAI's ``prompt_tokens`` and ``input_tokens`` include them. Sources: the API references of
Anthropic Messages, OpenAI Chat Completions and Responses, and DeepSeek; Ollama's ``docs/api.md``,
llama.cpp's ``tools/server/README.md`` for ``timings``, vLLM's ``PromptTokenUsageInfo``. A missing
count is unknown here, even if the server leaves zeros out (as SGLang does).
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from cacheproxy.core.dialects.dialect import UsageSpelling
from cacheproxy.core.dialects.dialects import DIALECTS, USAGES
from cacheproxy.core.dialects.failing import SAYS, failure_in, says
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.http1.content_coding import CodingError, Unpacker, are_known
from cacheproxy.core.http1.ending import Ending
from cacheproxy.core.http1.sse import Event, EventReader

_TOO_MUCH = 1 << 53
"""Numbers from here on are nonsense, and too large for the sums to come."""
_Counts = tuple[tuple[tuple[str, ...], ...], ...]
"""Of the prompt, what was reused and written of it, and the output: the paths of each."""
_LONGEST_KEPT = 4 << 20
"""Bytes of an unstreamed answer, line or event that is read for its usage; a longer has none."""
_MOST_UNPACKED = 64 << 20
"""Bytes that a packed body may come to."""
_MOST_AT_ONCE = 1 << 20
"""Bytes that one of its pieces may come to: more would hold the reactor too long."""
_FAILS = (b'"error"', b'"incomplete"', b'"failed"', b'"cancelled"', b'"blockReason"')
"""What a message that says that the answer failed contains."""
_FAILING = re.compile(b"|".join(_FAILS))
_MARKS = [each.end for each in DIALECTS if each.end is not None]
_DONE = frozenset(each.done for each in _MARKS if each.done)
_ENDS = frozenset(name.encode() for each in _MARKS for name in each.events)
"""What ends a stream: the data of an event, or its type."""
_HINTS = (
    *(b'"timings"', *{each.hint for each in USAGES if each.hint}),
    *(*_FAILS, *_DONE, *(b'"%b"' % name for name in _ENDS)),
)
"""What messages with counts contain, if these do not stand in "usage"; failures; and ends."""
_SHORT = 8 << 10
"""Bytes of an answer up to which it may say nothing: what opens and ends one takes fewer."""
_MOST_READ, _MOST_HELD, _LONGEST_HELD = 64, 8, 16 << 10
"""Events with counts that are read as they come; those after them that are held, and bytes of one
of these."""
_TOGETHER = 4 << 10
"""Bytes below which pieces wait to be looked at together: for an event alone, calls cost most."""


class Usage(msgspec.Struct, frozen=True):
    """Counts as measured by the server; None where it did not say.

    Parts that are more than the whole are unknown: who knows which of the counts is wrong.
    """

    prompt: int | None = None  #: all tokens of the prompt
    reused: int | None = None  #: those from the cache
    output: int | None = None  #: generated tokens
    prompt_seconds: float | None = None  #: the server's own time for the evaluated tokens alone
    output_seconds: float | None = None  #: the server's own time for the generated ones
    written: int | None = None  #: tokens of the prompt that the server put into its cache
    evaluated: int | None = None
    """Prompt tokens that were computed: all of them less the reused; it follows from these."""
    truncated: bool | None = None
    """The server says that the prompt, or with its answer, had no room in the context."""

    def __post_init__(self) -> None:
        """Forget parts that are more than the whole; work out what was evaluated."""
        prompt, reused, evaluated = self.prompt, self.reused, None
        if prompt is not None:
            if reused is not None and reused > prompt:
                reused = None
                force_setattr(self, "reused", None)
            if self.written is not None and self.written + (reused or 0) > prompt:
                force_setattr(self, "written", None)
            if reused is not None:
                evaluated = prompt - reused
        force_setattr(self, "evaluated", evaluated)

    def merged(self, later: Usage) -> Usage:
        """Return these figures, overridden by those that ``later`` knows."""
        if later is NOTHING or self is NOTHING:
            return self if later is NOTHING else later
        prompt = self.prompt if later.prompt is None else later.prompt
        if later.reused is None and self.reused is not None and self.prompt is not None:
            # A prompt without its cached part, after one with it, may be the fresh part alone.
            prompt = max(self.prompt, later.prompt or 0)
        return Usage(
            prompt,
            self.reused if later.reused is None else later.reused,
            self.output if later.output is None else later.output,
            self.prompt_seconds if later.prompt_seconds is None else later.prompt_seconds,
            self.output_seconds if later.output_seconds is None else later.output_seconds,
            self.written if later.written is None else later.written,
            truncated=later.truncated or self.truncated,
        )


NOTHING = Usage()
"""What a message that says nothing of usage says."""
_TRUNCATED = Usage(truncated=True)


def usage_of(message: Any) -> Usage:
    """Return what one JSON message of a response, in whichever dialect, says of usage."""
    if not isinstance(message, dict):
        return NOTHING
    said: list[Usage] = []
    for holder in (message, message.get("message"), message.get("response")):
        if isinstance(holder, dict):
            usage = holder.get("usage")
            if isinstance(usage, dict):
                for spelling, counts in _INSIDE:
                    if not usage.keys().isdisjoint(spelling.signs):
                        said.append(_read(usage, spelling, counts))
                        break
            if "timings" in holder:
                said.append(_timings(holder["timings"]))
            if holder.get("truncated") is True:
                said.append(_TRUNCATED)
    for spelling, counts in _ALONE:
        if not message.keys().isdisjoint(spelling.signs):
            said.append(_read(message, spelling, counts))
    return said[0] if len(said) == 1 else reduce(Usage.merged, said, NOTHING)


def _read(usage: dict[str, Any], spelling: UsageSpelling, counts: _Counts) -> Usage:
    found: list[int | None] = []
    for paths in counts:
        count, is_odd = None, False
        for path in paths:
            value: Any = usage
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            if type(value) is int and 0 <= value < _TOO_MUCH:
                count = value
                break
            is_odd = is_odd or value is not None
        found.append(count)
        if is_odd and spelling.is_rest and len(found) < 4:  # the whole is the sum of its parts
            found[0] = None
    prompt, reused, written, output = found
    if spelling.is_rest:
        if prompt is None:
            return Usage(output=output)
        prompt += (reused or 0) + (written or 0)
    if not spelling.seconds:
        return Usage(prompt, reused, output, None, None, written)
    seconds = [_seconds(usage.get(name), 1e9) for name in spelling.seconds]
    return Usage(prompt, reused, output, seconds[0], seconds[1], written)


def _timings(timings: Any) -> Usage:
    if not isinstance(timings, dict):
        return NOTHING
    reused, evaluated = _count(timings.get("cache_n")), _count(timings.get("prompt_n"))
    both = reused is not None and evaluated is not None
    return Usage(
        prompt=(reused or 0) + (evaluated or 0) if both else None,
        reused=reused if both else None,
        output=_count(timings.get("predicted_n")),
        prompt_seconds=_seconds(timings.get("prompt_ms"), 1e3),
        output_seconds=_seconds(timings.get("predicted_ms"), 1e3),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _TOO_MUCH else None


def _seconds(value: Any, per_second: float) -> float | None:
    is_number = type(value) is int or type(value) is float
    return value / per_second if is_number and 0 <= value < _TOO_MUCH else None


def _with_counts(spelling: UsageSpelling) -> tuple[UsageSpelling, _Counts]:
    each = spelling.prompt, spelling.reused, spelling.written, spelling.output
    return spelling, tuple(tuple(tuple(path.split(".")) for path in paths) for paths in each)


_INSIDE = [_with_counts(each) for each in USAGES if not each.hint]
_ALONE = [_with_counts(each) for each in USAGES if each.hint]


def summed(values: Iterable[Any]) -> Any:
    """Return the sum of ``values``; None if one of them is unknown."""
    known = list(values)
    return None if None in known else sum(known)


class UsageReader:
    """Reads the usage out of a response body as it passes: SSE, JSON lines, or one JSON value.

    ``feed(bytes)`` with a copy of each chunk, then ``close()``. Never raises: a body it cannot
    read has no usage. ``content_type`` is the response's, and ``codings`` are those of the body.
    ``ending`` is shown what may be the answer's end, where nothing else tells that it is whole.
    ``failure``: what the answer says of its own failure before its end, None for nothing.
    ``is_page``: it is a web page, and no answer.
    """

    def __init__(
        self, content_type: str, *, codings: Sequence[bytes] = (), ending: Ending | None = None
    ) -> None:
        content_type = content_type.lower()
        self.is_page = "html" in content_type
        self.failure: Mapping[str, Any] | None = None
        self._has_ended = False
        self._first: bytearray | None = bytearray()
        self._usage = NOTHING
        self._ending = None if codings else ending  # it might be there, and still be packed
        self._events = EventReader() if "event-stream" in content_type else None
        self._between = b""
        self._counted = 0
        self._held: deque[bytes] = deque(maxlen=_MOST_HELD)
        self._waiting = bytearray()
        self._lines = "ndjson" in content_type or "jsonl" in content_type
        self._is_one = self._events is None and not self._lines
        self._kept = bytearray()
        self._size = 0
        is_read = "json" in content_type or self._events is not None
        self._off = not (is_read and are_known(codings))
        self._unpacker = Unpacker(codings, _MOST_UNPACKED) if codings and not self._off else None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        if self._off:
            return
        if self._unpacker is not None:
            data = self._unpacked(self._unpacker, data)
        if self._first is not None:
            self._first += data
            if len(self._first) > _SHORT:
                self._first = None
        if self._is_one:
            self._kept += data
            if len(self._kept) > _LONGEST_KEPT:
                self._kept.clear()
                self._off = True
        elif len(self._waiting) + len(data) < _TOGETHER:
            self._waiting += data
        else:
            self._look(self._waited() + data)

    def close(self) -> Usage:
        """Return what was found once the body has ended, wholly or not."""
        if not self._is_one:
            self._look(self._waited())
            self._release()
        self._read(bytes(self._kept))
        return self._usage

    @property
    def says_nothing(self) -> bool:
        """Whether the body, which has ended, has no text, no reasoning and no call in it."""
        if self._off or self._first is None or SAYS.search(self._first):
            return False
        data = bytes(self._first)
        if self._events is not None:
            found = [event.data for event in EventReader().feed(data + b"\n\n")]
        else:
            found = [data] if self._is_one else data.splitlines()
        values = [parsed(one) for one in found if one.strip() not in (b"", *_DONE)]
        return not any(value is None or says(value) for value in values)

    @property
    def is_cut(self) -> bool:
        """Whether the body, which has ended, lacks the end that its dialect has.

        Of a body that cannot be read, nobody knows. An event needs no empty line after it here.
        """
        ending = self._ending
        if self._off or ending is None:
            return False
        if not self._is_one:
            self._look(self._waited())
        if self._events is not None:
            self._read_events(self._events.feed(b"\n\n"))
            return not ending.is_seen
        if self._size > _LONGEST_KEPT:
            return False
        if self._lines:
            ending.see(b"", bytes(self._kept))
            return not ending.is_seen
        return not _is_json(self._kept)

    def _unpacked(self, unpacker: Unpacker, data: bytes) -> bytes:
        """Return what ``data`` comes to; from what is broken or too much on, nothing."""
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

    def _waited(self) -> bytes:
        waited = bytes(self._waiting)
        self._waiting.clear()
        return waited

    def _look(self, data: bytes) -> None:
        if self._events is not None:
            self._feed_events(self._events, data)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            self._read(self._take())
        self._keep(rest)

    def _feed_events(self, events: EventReader, data: bytes) -> None:
        """Read only events that may tell of usage; most do not."""
        begun, between = 0, self._between
        if not between or not events.is_between:
            if not between:
                self._between = between = b"\r\n\r\n" if b"\r\n\r\n" in data else b"\n\n"
            first = data.find(between)
            begun = len(data) if first < 0 else first + len(between)
            self._read_events(events.feed(data[:begun]))
        last = data.rfind(between, begun)
        if last >= 0 and events.is_between:
            whole = data[begun:last]
            begun = last + len(between)
            matters = _may_tell if self._ending is None else self._matters
            if matters(whole):
                for event in whole.split(between):
                    if matters(event):
                        self._whole_event(events, event + between)
        if begun < len(data):
            self._read_events(events.feed(data[begun:]))

    def _whole_event(self, events: EventReader, event: bytes) -> None:
        """Read an event, or hold it: of many with counts the last ones say all that there is.

        Servers that count in every event would else cost as much as their answers are long.
        """
        self._counted += 1
        if self._counted <= _MOST_READ or self._ending is not None or len(event) > _LONGEST_HELD:
            self._read_events(events.feed(event))
        else:
            self._held.append(event)

    def _release(self) -> None:
        """Read what was held: nothing later is read before it."""
        held = b"".join(self._held)
        self._held.clear()
        for event in EventReader().feed(held):
            self._read(event.data, event.type)

    def _read_events(self, events: Iterable[Event]) -> None:
        for event in events:
            if len(event.data) <= _LONGEST_KEPT:
                self._read(event.data, event.type)
            elif self._ending is not None:
                self._ending.see(event.type, b"")

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= _LONGEST_KEPT:
            self._kept += piece
        else:
            self._kept.clear()

    def _take(self) -> bytes:
        """Return the line or body that has ended; nothing if it was too long."""
        kept = bytes(self._kept)
        self._kept.clear()
        self._size = 0
        return kept

    def _matters(self, text: bytes) -> bool:
        ending = self._ending
        return _may_tell(text) or (ending is not None and ending.may_be_in(text))

    def _read(self, text: bytes, kind: bytes = b"") -> None:
        if self._ending is not None:
            self._ending.see(kind, text)
        if text in _DONE:
            self._has_ended = True
        elif _may_tell(text):
            if self._held:
                self._release()
            try:
                message = msgspec.json.decode(text)
            except (ValueError, RecursionError):  # it refuses more than the standard library does
                message = parsed(text)
            if not self._has_ended and self.failure is None and _FAILING.search(text):
                self.failure = failure_in(message)
            self._has_ended = self._has_ended or kind in _ENDS
            found = usage_of(message)
            self._usage = found if self._usage is NOTHING else self._usage.merged(found)


def _may_tell(text: bytes) -> bool:
    """Whether there may be usage in it. Most events have none, or only say that they have none.

    One of these keys is in whatever ``usage_of`` makes something of. Long words are looked for
    faster than short ones.
    """
    usages = text.count(b'"usage"')
    if usages and usages > text.count(b'"usage":null') + text.count(b'"usage": null'):
        return True
    for hint in _HINTS:  # noqa: SIM110 (any() would make a generator for each event)
        if hint in text:
            return True
    return False


def _is_json(text: bytes | bytearray) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return True  # as far as anybody can tell
    except ValueError:
        return False
    return True
