"""Comments in an event stream: what servers send so that nobody takes them for dead."""

from __future__ import annotations

import re
from collections.abc import Iterator

_COMMENT = re.compile(rb"(?<=[\r\n]):")
COMMENT = b""
"""Not a piece of the stream, but the word that a comment begins with the next one."""


class CommentFinder:
    """Cuts a stream before its comment lines: each is announced by ``COMMENT``.

    The pieces joined are the stream, whatever the chunks it came in.
    """

    def __init__(self) -> None:
        self._at_line_start = True

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Return the pieces of ``data``, and ``COMMENT`` before those that begin a comment."""
        if not data:
            return
        if self._at_line_start and data.startswith(b":"):
            yield COMMENT
        self._at_line_start = data.endswith((b"\n", b"\r"))
        begin = 0
        if b":" in data:
            for found in _COMMENT.finditer(data):
                yield data[begin : found.start()]
                yield COMMENT
                begin = found.start()
        yield data[begin:]
