"""A server's progress in a prompt, which it reports before its answer begins.

Sources: mlx-lm's server writes a comment ``: keepalive 2048/11000`` after each piece of a prompt,
with the number of tokens that it evaluates; llama.cpp (``tools/server/README.md``) sends events
with ``prompt_progress`` if the request has ``return_progress``, and counts cached tokens, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.document.reader import parsed

_COMMENT = re.compile(rb": ?keepalive (\d{1,12})/(\d{1,12})")
_PROGRESS = re.compile(rb',\s*"prompt_progress"\s*:\s*\{[^{}]*\}')
_FIELDS = (b":", b"event:", b"data:", b"id:", b"retry:")
"""First bytes of a line that may be a sign of life."""
_EARLY = frozenset(
    {"message_start", "ping", "keepalive", "response.heartbeat"}
    | {"response.created", "response.queued", "response.in_progress"}
)
"""Events that servers send before the first token: vLLM begins with ``response.created``."""
_LONGEST, _LONGEST_EARLY = 16 << 10, 1 << 20
"""Bytes above which a line counts as the answer; in an early event, since ``response.created`` may
repeat all tools."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A server's progress in a prompt."""

    done: int  #: tokens evaluated so far
    total: int  #: tokens to be evaluated

    @property
    def share(self) -> float:
        """The part of the prompt that is evaluated, from 0 to 1."""
        return self.done / max(1, self.total)


class PrefillReader:
    """The reader of an event stream until the answer begins: with its first token, or an error.

    Comments, and events that only open an answer, are signs of life. ``progress``: the last one
    reported. ``has_begun``: whether the answer has begun.

    ``strip_progress``: remove progress reports, which the proxy, not the client, requested. The
    first event of each name would be in the stream anyway, and loses only that member.
    """

    def __init__(self, *, strip_progress: bool = False) -> None:
        self.progress: Progress | None = None
        self.has_begun = False
        self._strips = strip_progress
        self._line = b""  # an incomplete line
        self._is_early = False  # whether the event being read is one of _EARLY
        self._named = b""  # the line with that event's name, buffered until its data has come
        self._is_dropped = False
        self._seen: set[bytes] = set()  # lines with names of earlier events

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the body, until the answer has begun; return the bytes to send."""
        lines = (self._line + data).splitlines(keepends=True)
        rest = self._line = b"" if not lines or lines[-1].endswith((b"\n", b"\r")) else lines.pop()
        down = []
        for number, line in enumerate(lines):
            if not self._is_sign(line.rstrip(b"\r\n")):
                lines = lines[number:]
                break
            down.append(self._stripped(line) if self._strips else b"")
        else:
            lines = []
            longest = _LONGEST_EARLY if self._is_early else _LONGEST
            may_be = rest.startswith(_FIELDS) or any(field.startswith(rest) for field in _FIELDS)
            if may_be and len(rest) <= longest:
                return b"".join(down) if self._strips else data
        self.has_begun = True
        return b"".join([*down, self._named, *lines, rest]) if self._strips else data

    def close(self) -> bytes:
        """Return the buffered bytes of a body that has ended before the answer began."""
        return self._named + self._line if self._strips else b""

    def _is_sign(self, line: bytes) -> bool:
        if not line:
            self._is_early = False
        elif line.startswith(b":"):
            found = _COMMENT.fullmatch(line)
            if found:
                self._take(int(found[1]), int(found[2]))
        elif line.startswith(b"event:"):
            self._is_early = line[6:].strip().decode("latin-1") in _EARLY
            return self._is_early
        elif line.startswith(b"data:"):
            data = line[5:]
            tells = b'"prompt_progress"' in data
            if self._is_early and not tells:
                return True
            message = parsed(data)
            if not isinstance(message, dict):
                return False
            told = message.get("prompt_progress") if tells else None
            if isinstance(told, dict):
                done, total = _count(told.get("processed")), _count(told.get("total"))
                if done is not None and total is not None:
                    cached = _count(told.get("cache")) or 0
                    self._take(done - cached, total - cached)
                return True
            kind, choices = message.get("type"), message.get("choices")
            if isinstance(kind, str) and kind in _EARLY:
                return True
            return isinstance(choices, list) and choices != [] and all(map(_is_empty, choices))
        return line.startswith(_FIELDS) or not line

    def _take(self, done: int, total: int) -> None:
        if 0 <= done <= total and total:
            self.progress = Progress(done, total)

    def _stripped(self, line: bytes) -> bytes:
        """Return the bytes to send for ``line``, with the buffered line before it."""
        named, self._named = self._named, b""
        if line.startswith(b"event:"):
            self._named = line
            return named
        if line.startswith(b"data:"):
            line, count = _PROGRESS.subn(b"", line, 1)
            self._is_dropped = count > 0 and (not named or named in self._seen)
            self._seen.add(named)
        is_dropped = self._is_dropped
        self._is_dropped = is_dropped and line.rstrip(b"\r\n") != b""
        return b"" if is_dropped else named + line


def _is_empty(choice: Any) -> bool:
    """Whether a choice in a chunk of Chat Completions has nothing but the role yet."""
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict) or choice.get("finish_reason"):
        return False
    return not any(value for name, value in delta.items() if name != "role")


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None
