"""What the server says it did: prompt tokens reused and evaluated, tokens generated, speed.

Law 6: the dialects count differently. Anthropic's ``input_tokens`` excludes cached tokens,
OpenAI's ``prompt_tokens`` and ``input_tokens`` include them. Sources: the API references of
Anthropic Messages, OpenAI Chat Completions and Responses, Ollama's ``docs/api.md``, and
llama.cpp's ``tools/server/README.md`` for ``timings``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.sse import Event, EventReader

_LONGEST_KEPT = 4 << 20
"""Bytes of an unstreamed answer, line or event that is read for its usage; a longer has none."""
_TOGETHER = 4 << 10
"""Bytes below which pieces wait to be looked at together: for an event alone, calls cost most."""
_TOO_MUCH = 1 << 53
"""Numbers from here on are nonsense, and too large for the sums to come."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts as measured by the server; None where it did not say.

    ``prompt``: all prompt tokens; ``reused``: those from cache; ``output``: generated tokens.
    ``prompt_seconds``, ``output_seconds``: the server's own times.
    """

    prompt: int | None = None
    reused: int | None = None
    output: int | None = None
    prompt_seconds: float | None = None
    output_seconds: float | None = None

    @property
    def evaluated(self) -> int | None:
        """Prompt tokens that were computed: all of them less the reused."""
        if self.prompt is None or self.reused is None or self.reused > self.prompt:
            return None
        return self.prompt - self.reused

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
        )


NOTHING = Usage()
"""What a message that says nothing of usage says."""


def usage_of(message: Any) -> Usage:
    """Return what one JSON message of a response, in whichever dialect, says of usage."""
    if not isinstance(message, dict):
        return NOTHING
    found = NOTHING
    for holder in (message, message.get("message"), message.get("response")):
        if isinstance(holder, dict):
            if "usage" in holder:
                found = found.merged(_openai_or_anthropic(holder["usage"]))
            if "timings" in holder:
                found = found.merged(_timings(holder["timings"]))
    if "prompt_eval_duration" in message or "prompt_eval_count" in message:
        found = found.merged(_ollama(message))
    if "tokens_evaluated" in message:
        found = found.merged(_completion(message))
    return found


def _openai_or_anthropic(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return NOTHING
    if "prompt_tokens" in usage:
        return Usage(
            prompt=_count(usage["prompt_tokens"]),
            reused=_cached(usage.get("prompt_tokens_details")),
            output=_count(usage.get("completion_tokens")),
        )
    output = _count(usage.get("output_tokens"))
    fresh = _count(usage.get("input_tokens"))
    if "input_tokens_details" in usage or "total_tokens" in usage:
        return Usage(fresh, _cached(usage.get("input_tokens_details")), output)
    reused = _count(usage.get("cache_read_input_tokens"))
    written = _count(usage.get("cache_creation_input_tokens")) or 0
    if fresh is None:
        return Usage(output=output)
    if reused is None:
        return Usage(prompt=fresh + written, output=output)
    return Usage(prompt=fresh + reused + written, reused=reused, output=output)


def _cached(details: Any) -> int | None:
    return _count(details.get("cached_tokens")) if isinstance(details, dict) else None


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


def _ollama(message: dict[str, Any]) -> Usage:
    """Ollama counts evaluated tokens only loosely and never says what it reused."""
    return Usage(
        prompt=_count(message.get("prompt_eval_count")),
        output=_count(message.get("eval_count")),
        prompt_seconds=_seconds(message.get("prompt_eval_duration"), 1e9),
        output_seconds=_seconds(message.get("eval_duration"), 1e9),
    )


def _completion(message: dict[str, Any]) -> Usage:
    """llama-server's native ``/completion``.

    ``tokens_evaluated`` is the whole prompt, ``tokens_cached`` what the slot holds afterwards,
    prompt and answer (server-context.cpp: ``n_tokens_cached = slot.prompt.n_tokens()``): what
    was reused stands in ``timings`` alone.
    """
    return Usage(
        prompt=_count(message["tokens_evaluated"]),
        output=_count(message.get("tokens_predicted")),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _TOO_MUCH else None


def _seconds(value: Any, per_second: float) -> float | None:
    is_number = type(value) is int or type(value) is float
    return value / per_second if is_number and 0 <= value < _TOO_MUCH else None


class UsageReader:
    """Reads the usage out of a response body as it passes: SSE, JSON lines, or one JSON value.

    ``feed(bytes)`` with a copy of each chunk, then ``close()``. Never raises: a body it cannot
    read has no usage. ``content_type`` is the response's; an encoded body is not looked into.
    """

    def __init__(self, content_type: str, *, encoded: bool = False) -> None:
        content_type = content_type.lower()
        self._usage = NOTHING
        self._events = EventReader() if "event-stream" in content_type else None
        self._at_start = True
        self._waiting = bytearray()
        self._lines = "ndjson" in content_type or "jsonl" in content_type
        self._kept = bytearray()
        self._size = 0
        self._off = encoded or not ("json" in content_type or self._events is not None)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        if self._off:
            return
        if len(self._waiting) + len(data) < _TOGETHER:
            self._waiting += data
        else:
            self._look(self._waited() + data)

    def close(self) -> Usage:
        """Return what was found once the body has ended, wholly or not."""
        self._look(self._waited())
        self._read(self._take())
        return self._usage

    def _waited(self) -> bytes:
        waited = bytes(self._waiting)
        self._waiting.clear()
        return waited

    def _look(self, data: bytes) -> None:
        if self._events is not None:
            self._feed_events(self._events, data)
            return
        *lines, rest = data.split(b"\n") if self._lines else (data,)
        for line in lines:
            self._keep(line)
            self._read(self._take())
        self._keep(rest)

    def _feed_events(self, events: EventReader, data: bytes) -> None:
        """Read only what may tell of usage: 0.3 us for each of the other events instead of 5."""
        begun = 0
        if self._at_start or not events.is_between:
            self._at_start = False
            first = data.find(b"\n\n")
            begun = len(data) if first < 0 else first + 2
            self._read_events(events.feed(data[:begun]))
        last = data.rfind(b"\n\n", begun)
        if last >= 0 and events.is_between:
            whole = data[begun:last]
            begun = last + 2
            if _may_tell(whole):
                for event in whole.split(b"\n\n"):
                    if _may_tell(event):
                        self._read_events(events.feed(event + b"\n\n"))
        if begun < len(data):
            self._read_events(events.feed(data[begun:]))

    def _read_events(self, events: Iterable[Event]) -> None:
        for event in events:
            if len(event.data) <= _LONGEST_KEPT:
                self._read(event.data)

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

    def _read(self, text: bytes) -> None:
        if not _may_tell(text):
            return
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return
        self._usage = self._usage.merged(usage_of(message))


def _may_tell(text: bytes) -> bool:
    """Whether there may be usage in it. Most events have none, or only say that they have none.

    One of these keys is in whatever ``usage_of`` makes something of. Long words are looked for
    faster than short ones.
    """
    usages = text.count(b'"usage"')
    if usages and usages > text.count(b'"usage":null') + text.count(b'"usage": null'):
        return True
    return b'"timings"' in text or b'"prompt_eval_' in text or b'"tokens_evaluated"' in text
