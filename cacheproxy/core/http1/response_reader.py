"""Read one HTTP/1.1 response from bytes (RFC 9112), without any I/O.

One connection carries one response here; bytes after its end are ignored. Where the RFC lets a
recipient repair or refuse, this reader refuses a response that the next reader might split
differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto

from cacheproxy.core.http1.headers import by_name, tokens
from cacheproxy.core.prompt.request import Headers

LONGEST_HEAD = 256 << 10
"""Bytes of status line and headers; also of trailers."""
_MOST_INTERIM = 32
_LONGEST_CHUNK_LINE = 4096
_NO_LENGTH = "the upstream's Content-Length is not a valid number"
_BROKEN = "the upstream's chunk framing is broken"
_MANY = 2048
"""Bytes of a read above which many chunks are expected in it."""

_TEXT = rb"[^\x00-\x08\x0a-\x1f\x7f]"
"""No control character: a client or its terminal might make something of it."""
# Section 4: status-line = HTTP-version SP status-code SP [ reason-phrase ]; the last SP is
# left out by some servers.
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (%s*))?" % _TEXT)
# RFC 9110, section 5.1 and 5.5: a name and a value, which the end of the line ends.
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):(" + _TEXT + rb"*)(?:\r\n|\Z)")
_HEAD_END = b"\r\n\r\n"
_BARE_LF = re.compile(rb"(?<!\r)\n")
"""Section 2.2 lets one end a line. Where the next reader does not, the rest is a header's value."""
_OBS_FOLD = re.compile(rb"\r\n[ \t]+")
_CRLF = re.compile(rb"\r\n")  # which splits in two thirds of the time that bytes.split takes
_HEX = re.compile(rb"[0-9A-Fa-f]{1,16}")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\x00\r\n]*)?")
_CHUNK_START = re.compile(_CHUNK_LINE.pattern + rb"\r\n")


@dataclass(slots=True)
class ResponseHead:
    """Status and headers."""

    status: int  #: its code (RFC 9110, section 15)
    reason: bytes  #: the phrase behind it
    headers: Headers  #: (name, value) pairs as they came
    length: int | None = None  #: bytes of the body as announced; None: not known before its end
    _by_name: dict[bytes, list[bytes]] = field(init=False, repr=False, compare=False)
    """Values by name in lower case."""

    def __post_init__(self) -> None:
        self._by_name = by_name(self.headers)

    def values(self, name: bytes) -> list[bytes]:
        """Return all values of the header called ``name`` (lower case)."""
        return self._by_name.get(name, [])

    @property
    def ends_with_connection(self) -> bool:
        """Whether nothing but the end of the connection says where a body ends."""
        return self.length is None and not self.values(b"transfer-encoding")

    @property
    def content_type(self) -> bytes:
        """The media type with its parameters, in lower case; empty if there is none."""
        return b"".join(self.values(b"content-type")[:1]).lower()

    def tokens(self, name: bytes) -> list[bytes]:
        """Return the comma-separated values of the header called ``name``, in lower case."""
        return tokens(self.values(name))


class ResponseError(ValueError):
    """The upstream's bytes are no response we can pass on."""


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    UNTIL_CLOSE = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILERS = auto()
    DONE = auto()


class ResponseReader:
    """``feed(bytes)`` returns the body bytes they hold; ``close()`` when the connection ends.

    ``head`` is None until the final response's head is whole; ``done`` says that the body is.
    Both methods raise ResponseError.
    """

    def __init__(self, method: bytes) -> None:
        self.head: ResponseHead | None = None
        self.done = False
        self._method = method
        self._state = _State.HEAD
        self._head = bytearray()
        self._searched = 0
        self._buffer = b""
        self._left = 0
        self._interim = 0

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return the body bytes among them, without their framing."""
        if self._state is _State.CHUNK_SIZE and not self._buffer:
            # One chunk, which an event mostly is, without the detours of many.
            found = _CHUNK_START.match(data)
            if found and found.end() <= _LONGEST_CHUNK_LINE and data.endswith(b"\r\n"):
                body = data[found.end() : -2]
                if body and len(body) == int(found[1], 16):
                    return body
        if self._state is _State.UNTIL_CLOSE:
            return data
        if self._state is _State.LENGTH:
            taken = data[: self._left] if len(data) > self._left else data
            self._left -= len(taken)
            if not self._left:
                self._finish()
            return taken
        if self._state is _State.DONE:
            return b""
        if self._state is _State.HEAD:
            self._head += data
            while self._state is _State.HEAD:
                if not self._read_head():
                    return b""
            rest, self._head = bytes(self._head), bytearray()
            return self.feed(rest)
        return self._read_chunks(self._buffer + data if self._buffer else data)

    def close(self) -> None:
        """Take the end of the connection; raises ResponseError if it came too early."""
        if self._state is _State.UNTIL_CLOSE:
            self._finish()
        if not self.done:
            where = "before the response head was whole" if self.head is None else "mid-body"
            raise ResponseError(f"the upstream closed the connection {where}")

    def _finish(self) -> None:
        self._state, self.done = _State.DONE, True

    def _read_head(self) -> bool:
        """Read one head, interim or final; return whether there was a whole one."""
        end = self._head.find(_HEAD_END, self._searched)
        at = len(self._head) - 3 if end < 0 else end
        within = min(LONGEST_HEAD, len(self._head) if end < 0 else end)
        if _BARE_LF.search(self._head, self._searched, within):
            raise ResponseError("the upstream's response head has a line feed without a CR")
        if at > LONGEST_HEAD:
            raise ResponseError("the upstream's response head is too large")
        if end < 0:
            self._searched = max(0, at)
            return False
        line, *rest = bytes(self._head[:at]).split(b"\r\n", 1)
        del self._head[: at + len(_HEAD_END)]
        self._searched = 0
        status_line = _STATUS_LINE.fullmatch(line)
        if status_line is None:
            raise ResponseError("the upstream's answer is not HTTP/1.1")
        status = int(status_line[2])
        if status < 200:
            self._interim += 1
            if status == 101 or self._interim > _MOST_INTERIM:
                raise ResponseError(f"the upstream sent an unexpected {status} response")
            return True
        head = ResponseHead(status, status_line[3] or b"", _fields(rest[0]) if rest else ())
        lengths = head.tokens(b"content-length")
        if len(lengths) > 1:  # they have to agree, and one is left (RFC 9110, section 8.6)
            if len(set(lengths)) > 1:
                raise ResponseError(_NO_LENGTH)
            kept = [field for field in head.headers if field[0].lower() != b"content-length"]
            fields = (*kept, (b"Content-Length", lengths[0]))
            head = ResponseHead(head.status, head.reason, fields)
        head.length = self._begin_body(head, lengths)
        self.head = head
        return True

    def _begin_body(self, head: ResponseHead, lengths: list[bytes]) -> int | None:
        """Settle the body's length by RFC 9112, section 6.3, in its order."""
        length = None
        if lengths:
            announced = lengths[0]
            if not announced.isdigit() or len(announced) >= 19:
                raise ResponseError(_NO_LENGTH)
            length = int(announced)
        codings = head.tokens(b"transfer-encoding")
        if self._method == b"HEAD" or head.status in (204, 304):
            self._finish()
            return length
        if codings:
            if codings != [b"chunked"]:
                raise ResponseError("the upstream's Transfer-Encoding is not chunked")
            self._state = _State.CHUNK_SIZE
            return None
        if length is None:
            self._state = _State.UNTIL_CLOSE
            return None
        self._left = length
        self._state = _State.LENGTH
        if not length:
            self._finish()
        return length

    def _read_chunks(self, buffer: bytes) -> bytes:
        """Read all chunks in the buffer at once, so that a read makes one write (section 7.1)."""
        position, pieces = 0, list[bytes]()
        may_split = len(buffer) > _MANY
        while position < len(buffer) and not self.done:
            if self._state is _State.CHUNK_SIZE:
                if may_split:
                    may_split = False  # what stops it once would stop it again
                    position += _split_chunks(buffer[position:], pieces)
                position = _match_chunks(buffer, position, pieces)
            elif self._state is _State.CHUNK_DATA:
                piece = buffer[position : position + self._left]
                pieces.append(piece)
                position += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._state = _State.CHUNK_END
                continue
            end = buffer.find(b"\n", position)
            if (len(buffer) if end < 0 else end) - position > _LONGEST_CHUNK_LINE:
                raise ResponseError(_BROKEN)
            if end < 0:
                break
            if not buffer.endswith(b"\r", position, end):  # sections 2.2 and 7.1: no other end
                raise ResponseError(_BROKEN)
            self._framing(buffer[position : end - 1])
            position = end + 1
        self._buffer = b"" if self.done else buffer[position:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _framing(self, line: bytes) -> None:
        """Take one line of what is not data."""
        if self._state is _State.CHUNK_SIZE:
            found = _CHUNK_LINE.fullmatch(line)
            if found is None:
                raise ResponseError(_BROKEN)
            size = int(found[1], 16)
            self._state = _State.CHUNK_DATA if size else _State.TRAILERS
            self._left = size or LONGEST_HEAD
        elif self._state is _State.CHUNK_END:
            if line:
                raise ResponseError(_BROKEN)
            self._state = _State.CHUNK_SIZE
        else:  # trailers are dropped: few agents read them, and HTTP/1.0 clients cannot
            self._left -= len(line) + 2
            if self._left < 0:
                raise ResponseError("the upstream's trailers are too large")
            if not line:
                self._finish()


def _match_chunks(buffer: bytes, position: int, pieces: list[bytes]) -> int:
    """Add the whole chunks from ``position`` on to ``pieces``; return where they end.

    Left are the last chunk, one that is cut, and what only ``_framing`` can tell from nonsense.
    """
    while found := _CHUNK_START.match(buffer, position):
        start = found.end()
        end = start + int(found[1], 16)
        if (
            end == start  # the last
            or buffer[end : end + 2] != b"\r\n"  # cut, or broken
            or start - position > _LONGEST_CHUNK_LINE
        ):
            break
        pieces.append(buffer[start:end])
        position = end + 2
    return position


def _split_chunks(buffer: bytes, pieces: list[bytes]) -> int:
    """Do as ``_match_chunks`` for chunks that hold no CRLF and have no extensions.

    Of what stands between CRLFs, every other part is then a size and says how long the next one
    is. Where one does not, all before it were chunks, for it cannot be read in another way.
    """
    parts = _CRLF.split(buffer)
    sizes, data = parts[:-1:2], parts[1:-1:2]  # the last part is cut, or empty
    lengths = {size: _length_of(size) for size in set(sizes)}
    said, found = list(map(lengths.__getitem__, sizes)), list(map(len, data))
    del said[len(found) :]  # of data that is cut
    if said != found:
        del data[next(at for at, length in enumerate(found) if said[at] != length) :]
    pieces += data
    rest = parts[2 * len(data) :]
    return len(buffer) - sum(map(len, rest)) - 2 * (len(rest) - 1)


def _length_of(size: bytes) -> int | None:
    """Return the length that a size alone in its line says; None if it is another line."""
    if not _HEX.fullmatch(size) or len(size) + 2 > _LONGEST_CHUNK_LINE:
        return None
    return int(size, 16) or None  # 0 is the end, not a chunk


def _fields(lines: bytes) -> Headers:
    if b"\n " in lines or b"\n\t" in lines:
        lines = _OBS_FOLD.sub(b" ", lines)
    fields = []
    position = 0
    while position < len(lines):
        found = _FIELD.match(lines, position)
        if found is None:
            raise ResponseError("the upstream sent a malformed header line")
        fields.append((found[1], found[2].strip(b" \t")))
        position = found.end()
    return tuple(fields)
