"""Reader of HTTP/1.1 requests from bytes (RFC 9112), without any I/O.

One connection carries many requests, one after another. Where the RFC lets a recipient repair or
refuse, this reader refuses whatever the next reader might split differently: two lengths for one
body, bare CR or LF, folded lines, control characters, numbers not spelled in digits.

The result, and the error, do not depend on how the bytes were cut into pieces.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from cacheproxy.core.http1.buffer import Pieces
from cacheproxy.core.http1.headers import FIELDS, TOKEN, fields_of
from cacheproxy.core.http1.request_head import (
    NOT_HTTP,
    RequestError,
    RequestHead,
    RequestLimits,
)

_LONGEST_CHUNK_LINE = 1024
_LONGEST_TRAILERS = 64 << 10

_QUOTED = rb'"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*+"'
# Section 7.1.1: extensions, each a name, and perhaps a token or a quoted string.
_CHUNK_LINE = re.compile(
    rb"([0-9A-Fa-f]{1,16})"
    rb"(?:[ \t]*+;[ \t]*+%(token)s++"
    rb"(?:[ \t]*+=[ \t]*+(?:%(token)s++|%(quoted)s))?+"
    rb")*+" % {b"token": TOKEN, b"quoted": _QUOTED}
)
_LONGEST_METHOD = 32
"""Bytes of a method at most: the longest registered one has 17."""
# Section 3: method SP request-target SP HTTP-version. Only these versions have request lines. The
# target may have characters that a URI may not, and is passed on as it is.
_REQUEST_LINE = re.compile(
    rb"(%s{1,%d}+) ([\x21-\x7e]++) (HTTP/1\.[01])\r\n" % (TOKEN, _LONGEST_METHOD)
)
_START = re.compile(TOKEN + rb"{1,%d}+(?: ([\x21-\x7e]*)|\Z)" % _LONGEST_METHOD)
"""Method and target at the beginning of a request line that may not be whole."""
_LONG_METHOD = re.compile(TOKEN + rb"{%d}" % (_LONGEST_METHOD + 1))
_BARE = re.compile(rb"(?<!\r)\n|\r[^\n]")
_CR = ord("\r")


def _line_end(buffer: bytes, at: int, until: int) -> int:
    """Return the end of the line that begins at ``at``, -1 if there is none before ``until``.

    Section 2.2 lets a bare LF end a line. Here it raises RequestError, without a wait for a CRLF.
    """
    feed = buffer.find(b"\n", at, until)
    if feed == at or (feed > at and buffer[feed - 1] != _CR):
        raise RequestError(400, NOT_HTTP)
    return feed - 1 if feed > at else -1


class _Chunk(Enum):
    """The part of a chunked body that comes next."""

    SIZE = auto()
    DATA = auto()
    END = auto()
    TRAILERS = auto()


class RequestReader:
    """The reader of a connection's requests: ``feed``, then ``read_head``, then ``read_body``.

    Head and body are read apart so that a request can be refused for its head, whatever follows
    that. Both return None until their part is whole, and raise RequestError, after which the
    connection cannot be read any more. ``limits`` may be set between two requests.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self.limits = limits
        self.head: RequestHead | None = None
        self._buffer = b""
        self._at = 0
        self._skipped = False
        self._searched = 0
        self._body: Pieces | None = None
        self._next = _Chunk.SIZE
        self._left = 0

    @property
    def waiting(self) -> bool:
        """Whether there are bytes that have not been read yet."""
        return self._at < len(self._buffer)

    @property
    def size(self) -> int:
        """Number of bytes read of a body that is not whole yet."""
        return 0 if self._body is None else self._body.size

    @property
    def path(self) -> bytes:
        """The target without its query, as far as it has come; valid after an error, too."""
        if self.head is not None:
            return self.head.path
        longest_line = self.limits.target + self.limits.head
        found = _START.match(self._buffer, self._at, self._at + longest_line)
        return found[1].partition(b"?")[0] if found and found[1] else b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._at < len(self._buffer):
            data = self._buffer[self._at :] + data
        self._buffer = data
        self._at = 0

    def read_head(self) -> RequestHead | None:
        """Return the next request's head once it is whole."""
        limits, buffer, at = self.limits, self._buffer, self._at
        line = _REQUEST_LINE.match(buffer, at)
        if line is None or len(line[2]) > limits.target:
            if not self._skipped and buffer[at : at + 2] == b"\r\n":
                # Section 2.2: one empty line is allowed behind a body.
                self._skipped, self._at = True, at + 2
                return self.read_head()
            self._refuse_line()
            return None
        method, target, version = line.groups()
        begin = line.end()
        searched = max(begin - 2, at + self._searched)
        end, most = buffer.find(b"\r\n\r\n", searched), at + len(target) + limits.head
        if end < 0 or end > most:
            if _BARE.search(buffer, searched, most + 3):
                raise RequestError(400, NOT_HTTP)  # without a wait for the head's end
            if len(buffer) - 3 > most:
                raise RequestError(431, f"the headers are larger than {limits.head} bytes")
            self._searched = max(0, len(buffer) - 3 - at)
            return None
        fields = fields_of(buffer[begin:end])
        if fields is None:
            raise RequestError(400, NOT_HTTP)
        if len(fields) > limits.headers:
            raise RequestError(431, f"there are more than {limits.headers} headers")
        head = RequestHead(method, target, version, fields)
        self.head = head if target.startswith(b"/") else head.in_origin_form()
        self._at = end + 4
        return self.head

    def _refuse_line(self) -> None:
        """Raise the error of a request line that is not acceptable, unless it is not whole yet."""
        limits, buffer, at = self.limits, self._buffer, self._at
        if at == len(buffer) or (not self._skipped and buffer[at:] == b"\r"):
            return
        if _START.match(buffer, at, at + _LONGEST_METHOD + 1) is None:
            if _LONG_METHOD.match(buffer, at):  # section 3
                raise RequestError(501, "the request method is too long")
            raise RequestError(400, NOT_HTTP)
        longest_line = limits.target + limits.head
        line_end = buffer.find(b"\r\n", at, at + longest_line + 2)
        if line_end >= 0:
            if _REQUEST_LINE.match(buffer, at) is None:
                raise RequestError(400, NOT_HTTP)
            raise RequestError(414, "the request target is longer than the limit")
        _line_end(buffer, at, at + longest_line + 2)
        if len(buffer) - 1 - at > longest_line:
            raise RequestError(414, "the request line is longer than the limit")

    def read_body(self) -> bytes | None:
        """Return the body of the request whose head was read last, once it is whole."""
        head = self.head
        assert head is not None, "its head comes first"
        length, buffer, at = head.length, self._buffer, self._at
        kept = self._body
        if length is not None and not (kept and kept.size) and len(buffer) - at >= length:
            body, end = buffer[at : at + length], at + length  # whole at once: a single copy
        else:
            if kept is None:
                kept = self._body = Pieces(length or 0)
            if length is None:
                if not self._read_chunks(kept):
                    return None
                end = self._at
            else:
                end = self._at = min(len(buffer), at + length - kept.size)
                kept.add(memoryview(buffer)[at:end])
                if kept.size < length:
                    return None
            body = kept.joined()
        # Prepare for the next request, and drop all of this one.
        is_all = end == len(buffer)
        self._buffer, self._at = (b"", 0) if is_all else (buffer, end)
        self.head = self._body = None
        self._skipped, self._searched = False, 0
        return body

    def _read_chunks(self, body: Pieces) -> bool:
        """Add all chunks that have come to ``body`` (section 7.1); return whether it is whole."""
        buffer, at, size, done = self._buffer, self._at, len(self._buffer), False
        while at < size and not done:
            if self._next is _Chunk.DATA:
                piece = memoryview(buffer)[at : at + self._left]
                body.add(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._next = _Chunk.END
            if self._next is _Chunk.END:
                if not b"\r\n".startswith(buffer[at : at + 2]):
                    raise RequestError(400, NOT_HTTP)
                if size - at < 2:
                    break
                at += 2
                self._next = _Chunk.SIZE
            end = _line_end(buffer, at, size)
            line = (size - 1 if end < 0 else end) - at  # its length at least
            if self._next is _Chunk.TRAILERS:
                if line + 2 > self._left:
                    raise RequestError(400, NOT_HTTP)
            elif line > _LONGEST_CHUNK_LINE:
                raise RequestError(400, NOT_HTTP)
            if end < 0:
                break
            if self._next is _Chunk.SIZE:
                found = _CHUNK_LINE.fullmatch(buffer, at, end)
                if found is None:
                    raise RequestError(400, NOT_HTTP)
                size_of_chunk = int(found[1], 16)
                if size_of_chunk > self.limits.body - body.size:
                    raise RequestError.too_large(self.limits)
                self._next = _Chunk.DATA if size_of_chunk else _Chunk.TRAILERS
                self._left = size_of_chunk or _LONGEST_TRAILERS
            elif FIELDS.fullmatch(buffer, at, end) is None:
                raise RequestError(400, NOT_HTTP)
            else:  # trailers are dropped: few read them, and HTTP/1.0 has none
                self._left -= line + 2
                done = not line
            at = end + 2
        self._at = at
        if done:
            self._next, self._left = _Chunk.SIZE, 0
        return done
