"""How far a server is with a prompt, reported before its answer begins.

Sources: mlx-lm's server writes a comment ``: keepalive 2048/11000`` after each piece of a prompt,
counting the tokens that it evaluates; llama.cpp (``tools/server/README.md``) sends chunks with
``prompt_progress`` if the client asked with ``return_progress``, cached tokens included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.document.reader import parsed

_COMMENT = re.compile(rb": ?keepalive (\d{1,12})/(\d{1,12})")
_LONGEST = 16 << 10
"""Bytes of a line, above which it is the answer's."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a prompt was read."""

    done: int  #: tokens
    total: int  #: tokens that are to be evaluated


class PrefillReader:
    """Reads an event stream until the answer begins. ``progress``: the last that was told.

    Comments are signs of life, not an answer: a first token is what comes after them.
    """

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self._line = b""

    def feed(self, data: bytes) -> bool:
        """Take the next bytes of the body; return whether the answer has begun."""
        *lines, rest = (self._line + data).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if line and not self._is_sign(line):
                return True
        self._line = rest
        if not rest or rest.startswith(b":"):
            return len(rest) > _LONGEST
        # A chunk that says how far it is may be cut; where none came before, it is the answer.
        return self.progress is None or len(rest) > _LONGEST

    def _is_sign(self, line: bytes) -> bool:
        if line.startswith(b":"):
            found = _COMMENT.fullmatch(line)
            if found:
                self._take(int(found[1]), int(found[2]))
            return True
        if not (line.startswith(b"data:") and b'"prompt_progress"' in line):
            return False
        message = parsed(line[5:])
        told = message.get("prompt_progress") if isinstance(message, dict) else None
        if not isinstance(told, dict):
            return False
        done, total = _count(told.get("processed")), _count(told.get("total"))
        if done is not None and total is not None:
            cached = _count(told.get("cache")) or 0
            self._take(done - cached, total - cached)
        return True

    def _take(self, done: int, total: int) -> None:
        if 0 <= done <= total and total:
            self.progress = Progress(done, total)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None
