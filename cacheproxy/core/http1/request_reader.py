"""Read HTTP/1.1 requests from bytes (RFC 9112), without any I/O.

One connection carries many requests, one after another. Where the RFC lets a recipient repair or
refuse, this reader refuses whatever the next reader might split differently: two lengths for one
body, bare CR or LF, folded lines, control characters, numbers not spelled in digits.

The result, and the error, do not depend on how the bytes were cut into pieces.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Protocol

from cacheproxy.core.http1.buffer import Pieces
from cacheproxy.core.http1.headers import by_name, tokens
from cacheproxy.core.prompt.request import Headers

_LONGEST_CHUNK_LINE = 1024
_LONGEST_TRAILERS = 64 << 10
_MOST_DIGITS = 32
"""Of a Content-Length; int() refuses 4300."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
# Section 3: method SP request-target SP HTTP-version. Only these versions have request lines. The
# target is more than the RFC allows, and passes as it is.
_REQUEST_LINE = re.compile(_TOKEN.join((b"(", rb"+) ([\x21-\xb0]+) (HTTP/1\.[01])")))
# RFC 9110, sections 5.1 and 5.5: all lines at once, which is quick.
_FIELDS = re.compile(rb"(?:%s++:[^\x00-\x08\x0a-\x1f\x7f]*+(?:\r\n|\Z))*+" % _TOKEN)
_QUOTED = rb'"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*+"'
# Section 7.1.1: a name, and perhaps a token or a quoted string.
_CHUNK_LINE = re.compile(
    rb"([0-9A-Fa-f]{1,16})"
    rb"(?:[ \t]*+;[ \t]*+%(token)s++"
    rb"(?:[ \t]*+=[ \t]*+(?:%(token)s++|%(quoted)s))?+"
    rb")*+" % {b"token": _TOKEN, b"quoted": _QUOTED}
)
_CR = ord("\r")
_NOT_HTTP = "the request is not valid HTTP/1.1"


class RequestLimits(Protocol):
    """Bytes: ``body``, ``head`` (without the target), ``target``. A count: ``headers``."""

    @property
    def body(self) -> int: ...  # noqa: D102
    @property
    def head(self) -> int: ...  # noqa: D102
    @property
    def target(self) -> int: ...  # noqa: D102
    @property
    def headers(self) -> int: ...  # noqa: D102


class RequestError(ValueError):
    """The bytes are no request that we take: answer ``status``; the text is one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @classmethod
    def too_large(cls, limits: RequestLimits) -> RequestError:
        """A body over the limit."""
        return cls(413, f"the request body is larger than {limits.body >> 20} MiB")


class RequestHead:
    """Request line and headers, names and values as they came, in their order.

    ``length``: of the body in bytes, None if it is chunked. ``version``: HTTP/1.0 or HTTP/1.1.
    """

    __slots__ = ("_by_name", "headers", "length", "method", "target", "version")

    def __init__(
        self, method: bytes, target: bytes, version: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.headers: Headers = tuple(headers)
        self._by_name = by_name(self.headers)
        self.length = self._length()

    def values(self, name: bytes) -> list[bytes]:
        """Return all values of the header called ``name`` (lower case)."""
        return self._by_name.get(name, [])

    def without(self, names: list[bytes], target: bytes | None = None) -> RequestHead:
        """Return this head without the headers called ``names`` (lower case).

        ``target``: another one, None for its own.
        """
        left = [field for field in self.headers if field[0].lower() not in names]
        return RequestHead(
            self.method, self.target if target is None else target, self.version, left
        )

    @property
    def path(self) -> bytes:
        """The target without its query."""
        return self.target.partition(b"?")[0]

    @property
    def persistent(self) -> bool:
        """Whether the client lets the connection serve another request (section 9.3)."""
        if self.version != b"HTTP/1.1":
            return False
        return b"close" not in tokens(self.values(b"connection"))

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for a word before it sends its body (RFC 9110, 10.1.1)."""
        expected = self.values(b"expect")
        return bool(
            expected
            and expected[0].lower() == b"100-continue"
            and self.version == b"HTTP/1.1"
            and self.length != 0
        )

    def _length(self) -> int | None:
        """Settle the body's length by section 6.3; several opinions are an error."""
        lengths = self.values(b"content-length")
        codings = self.values(b"transfer-encoding")
        if codings:
            # ``identity`` is no coding (section 7), and may hide a second opinion.
            if len(codings) > 1 or codings[0].lower() != b"chunked":
                why = "the only Transfer-Encoding of a request is chunked"
                raise RequestError(400, why)
            if lengths:
                raise RequestError(400, _NOT_HTTP)
            return None
        if not lengths:
            return 0
        length = lengths[0]
        if len(lengths) > 1 or not length.isdigit() or len(length) > _MOST_DIGITS:
            raise RequestError(400, "the Content-Length makes no sense")
        return int(length)


class _Chunk(Enum):
    """What comes next of a chunked body."""

    SIZE = auto()
    DATA = auto()
    END = auto()
    TRAILERS = auto()


class RequestReader:
    """``feed`` takes bytes; ``read_head``, then ``read_body``, return what there is of a request.

    They are apart so that a request can be refused for its head alone, whatever came behind it.
    Both return None while there is not enough, and raise RequestError, after which there is
    nothing more to be read. ``limits`` may be set between two requests.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self.limits = limits
        self._head: RequestHead | None = None
        self._buffer = b""
        self._at = 0
        self._begin()

    def _begin(self) -> None:
        self._skipped = False
        self._searched = 0
        self._body = Pieces()
        self._next = _Chunk.SIZE
        self._left = 0

    @property
    def waiting(self) -> bool:
        """Whether bytes have come that are not read yet."""
        return self._at < len(self._buffer)

    @property
    def target(self) -> bytes:
        """What is asked for, as far as it has come: also after an error."""
        if self._head is not None:
            return self._head.target
        longest = self.limits.target + self.limits.head
        line = self._buffer[self._at : self._at + longest].partition(b"\r\n")[0]
        return line.split(b" ", 2)[1] if b" " in line else b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._at < len(self._buffer):
            data = self._buffer[self._at :] + data
        self._buffer = data
        self._at = 0

    def read_head(self) -> RequestHead | None:
        """Return the next request's head once it is whole."""
        limits, buffer, at = self.limits, self._buffer, self._at
        if not self._skipped and buffer.startswith(b"\r\n", at):
            # Section 2.2: one line too many, behind a body. No more than one.
            self._skipped = True
            self._at = at = at + 2
        line_end = buffer.find(b"\r\n", at)
        longest = limits.target + limits.head
        if (len(buffer) - 1 if line_end < 0 else line_end) - at > longest:
            raise RequestError(414, "the request line is longer than the limit")
        if line_end < 0:
            return None
        line = _REQUEST_LINE.fullmatch(buffer, at, line_end)
        if line is None:
            raise RequestError(400, _NOT_HTTP)
        method, target, version = line.groups()
        if len(target) > limits.target:
            raise RequestError(414, "the request target is longer than the limit")
        end = buffer.find(b"\r\n\r\n", max(line_end, at + self._searched))
        if (len(buffer) - 3 if end < 0 else end) - at - len(target) > limits.head:
            why = f"the headers are larger than {limits.head} bytes"
            raise RequestError(431, why)
        if end < 0:
            self._searched = max(0, len(buffer) - 3 - at)
            return None
        fields = self._fields(buffer[line_end + 2 : end])
        self._head = RequestHead(method, target, version, fields)
        self._at = end + 4
        return self._head

    def read_body(self) -> bytes | None:
        """Return the body of the request whose head was read last, once it is whole."""
        head = self._head
        assert head is not None, "its head comes first"
        length, buffer, at = head.length, self._buffer, self._at
        if length is None:
            if not self._read_chunks():
                return None
        elif not self._body.size and len(buffer) - at >= length:  # whole at once: no copy but one
            self._at = at + length
            self._end()
            return buffer[at : at + length]
        else:
            piece = buffer[at : at + length - self._body.size]
            self._at = at + len(piece)
            self._body.add(piece)
            if self._body.size < length:
                return None
        body = self._body.joined()
        self._end()
        return body

    def _end(self) -> None:
        """Be ready for the next request; keep nothing of this one."""
        self._head = None
        if self._at == len(self._buffer):
            self._buffer = b""
            self._at = 0
        self._begin()

    def _fields(self, section: bytes) -> list[tuple[bytes, bytes]]:
        if section and section.count(b"\r\n") >= self.limits.headers:
            raise RequestError(431, f"there are more than {self.limits.headers} headers")
        if _FIELDS.fullmatch(section) is None:
            raise RequestError(400, _NOT_HTTP)
        fields = []
        for line in section.split(b"\r\n") if section else ():
            name, _, value = line.partition(b":")
            fields.append((name, value.strip(b" \t")))
        return fields

    def _read_chunks(self) -> bool:
        """Read all chunks that have come (section 7.1); return whether the last was among them."""
        buffer, at, size, done = self._buffer, self._at, len(self._buffer), False
        while at < size and not done:
            if self._next is _Chunk.DATA:
                piece = buffer[at : at + self._left]
                self._body.add(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._next = _Chunk.END
            if self._next is _Chunk.END:
                if size - at < 2:
                    break
                if not buffer.startswith(b"\r\n", at):
                    raise RequestError(400, _NOT_HTTP)
                at += 2
                self._next = _Chunk.SIZE
            feed = buffer.find(b"\n", at)
            if feed == at or (feed > at and buffer[feed - 1] != _CR):
                raise RequestError(400, _NOT_HTTP)  # without waiting for another end
            end = feed - 1 if feed > at else -1
            line = (size - 1 if end < 0 else end) - at  # at least so long
            if self._next is _Chunk.TRAILERS:
                if line + 2 > self._left:
                    raise RequestError(400, _NOT_HTTP)
            elif line > _LONGEST_CHUNK_LINE:
                raise RequestError(400, _NOT_HTTP)
            if end < 0:
                break
            if self._next is _Chunk.SIZE:
                self._chunk_size(buffer, at, end)
            elif _FIELDS.fullmatch(buffer, at, end) is None:
                raise RequestError(400, _NOT_HTTP)
            else:  # dropped: few agents read trailers, and HTTP/1.0 clients send none
                self._left -= line + 2
                done = not line
            at = end + 2
        self._at = at
        return done

    def _chunk_size(self, buffer: bytes, at: int, end: int) -> None:
        found = _CHUNK_LINE.fullmatch(buffer, at, end)
        if found is None:
            raise RequestError(400, _NOT_HTTP)
        self._left = int(found[1], 16)
        if self._left > self.limits.body - self._body.size:
            raise RequestError.too_large(self.limits)
        self._next = _Chunk.DATA
        if not self._left:
            self._next = _Chunk.TRAILERS
            self._left = _LONGEST_TRAILERS
