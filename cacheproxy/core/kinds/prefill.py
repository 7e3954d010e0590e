"""How far a server is with a prompt, reported before its answer begins.

Sources: mlx-lm's server writes a comment ``: keepalive 2048/11000`` after each piece of a prompt,
counting the tokens that it evaluates; llama.cpp (``tools/server/README.md``) sends events with
``prompt_progress`` if it is asked with ``return_progress``, cached tokens included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.document.reader import parsed

_COMMENT = re.compile(rb": ?keepalive (\d{1,12})/(\d{1,12})")
_TOLD = re.compile(rb',\s*"prompt_progress"\s*:\s*\{[^{}]*\}')
_ENDS = (b"\n", b"\r")
_FIELDS = (b":", b"event:", b"data:", b"id:", b"retry:")
"""How a line begins that may be a sign of life."""
_EARLY = frozenset(
    {"message_start", "ping", "keepalive", "response.heartbeat"}
    | {"response.created", "response.queued", "response.in_progress"}
)
"""Events that servers send before there is a token: vLLM begins with ``response.created``."""
_LONGEST, _LONGEST_EARLY = 16 << 10, 1 << 20
"""Bytes of a line, above which it is the answer's; ``response.created`` may repeat all tools."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a prompt was read."""

    done: int  #: tokens
    total: int  #: tokens that are to be evaluated

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.done / max(1, self.total)


class PrefillReader:
    """Reads an event stream until the answer begins: with its first token, or an error.

    Comments are signs of life, not an answer; so is what only opens one. ``progress``: the last
    that was told. ``has_begun``: whether the answer has.

    ``strip_progress``: remove reports of progress, which the proxy, not the client, asked for.
    The first event of a name would be in the stream anyway, and loses only that member.
    """

    def __init__(self, *, strip_progress: bool = False) -> None:
        self.progress: Progress | None = None
        self.has_begun = False
        self._strips = strip_progress
        self._line = b""  # the beginning of one
        self._is_early = False  # the event that is being read
        self._named = b""  # the line with its name, held until it is known what it tells
        self._is_dropped = False
        self._seen: set[bytes] = set()  # names of events

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the body, until it has begun; return those that go down."""
        lines = (self._line + data).splitlines(keepends=True)
        rest = self._line = b"" if not lines or lines[-1].endswith(_ENDS) else lines.pop()
        down = []
        for number, line in enumerate(lines):
            if not self._is_sign(line.rstrip(b"\r\n")):
                lines = lines[number:]
                break
            down.append(self._kept(line) if self._strips else b"")
        else:
            lines = []
            longest = _LONGEST_EARLY if self._is_early else _LONGEST
            may_be = rest.startswith(_FIELDS) or any(field.startswith(rest) for field in _FIELDS)
            if may_be and len(rest) <= longest:
                return b"".join(down) if self._strips else data
        self.has_begun = True
        return b"".join([*down, self._named, *lines, rest]) if self._strips else data

    def close(self) -> bytes:
        """Return what was held of a body that is over before the answer has begun."""
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
            return self._is_early_data(line[5:])
        return line.startswith(_FIELDS) or not line

    def _is_early_data(self, data: bytes) -> bool:
        """Whether there is no token in it yet; take what it tells."""
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

    def _take(self, done: int, total: int) -> None:
        if 0 <= done <= total and total:
            self.progress = Progress(done, total)

    def _kept(self, line: bytes) -> bytes:
        """Return what goes down for a ``line``, and the one that was held."""
        named, self._named = self._named, b""
        if line.startswith(b"event:"):
            self._named = line
            return named
        if line.startswith(b"data:"):
            line, count = _TOLD.subn(b"", line, 1)
            self._is_dropped = count > 0 and (not named or named in self._seen)
            self._seen.add(named)
        is_dropped = self._is_dropped
        self._is_dropped = is_dropped and line.rstrip(b"\r\n") != b""
        return b"" if is_dropped else named + line


def _is_empty(choice: Any) -> bool:
    """Whether a choice of a chunk of Chat Completions says nothing yet but whose turn it is."""
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict) or choice.get("finish_reason"):
        return False
    return not any(value for name, value in delta.items() if name != "role")


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None
