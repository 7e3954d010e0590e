"""Reader of one HTTP/1.1 response from bytes (RFC 9112), without any I/O.

One connection carries one response here; bytes after its end are ignored. Where the RFC lets a
recipient repair or refuse, this reader refuses a response that the next reader might split
differently. Heads are parsed here, since llhttp accepts some that we refuse; chunks by llhttp.
Trailers are dropped, valid or not: the body has ended before them (section 7.1.2).
"""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace

from httptools import HttpParserError, HttpResponseParser

from cacheproxy.core.http1.headers import by_name, fields_of, tokens
from cacheproxy.core.prompt.request import Headers

LONGEST_HEAD = 256 << 10
"""Bytes of status line and headers at most; also of trailers and chunk framing together."""
_MOST_INTERIM = 32
_MOST_FRAMING = 64
"""Bytes of framing for each byte of a body that do not count against ``LONGEST_HEAD``: a chunk of
one byte may have 24 and an extension."""
_BODILESS = (204, 304)
_TOO_LONG = 19
"""Digits of a Content-Length that is refused."""
_BROKEN = "the upstream's chunk framing is broken"
_TRAILER = re.compile(r"header|Content-Length|Transfer-Encoding|LF after CR\Z")
"""Pattern of llhttp's reasons to refuse a trailer, none of which it has to refuse a chunk. (A
callback for the size line before the trailers would be called for each chunk.)"""
_CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
"""Head given to llhttp before the chunks, whatever the real one was."""

_TEXT = rb"[^\x00-\x08\x0a-\x1f\x7f]"
"""A character of a text: no control character, to which a client or terminal might react."""
# Section 4: status-line = HTTP-version SP status-code SP [ reason-phrase ]; some servers leave
# out the last SP.
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (%s*))?(?:\r\n|\Z)" % _TEXT)
_HEAD_END = b"\r\n\r\n"
_BARE_LF = re.compile(rb"(?<!\r)\n")
"""A bare LF, which may end a line by section 2.2; a reader that disagrees joins the two lines."""
_OBS_FOLD = re.compile(rb"\r\n[ \t]+")


class ResponseHead:
    """The head of a response: status and headers.

    ``status``: status code (RFC 9110, section 15); ``reason``: the phrase behind it. ``headers``:
    pairs of name and value as they came. ``length``: bytes of the body as announced, None if they
    are not known before its end. ``values``: function of a name in lower case that returns the
    header's values. ``content_type``: media type and parameters in lower case, empty if missing.
    """

    __slots__ = ("content_type", "headers", "length", "reason", "status", "values")

    def __init__(
        self, status: int, reason: bytes, headers: Headers, length: int | None = None
    ) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.length = length
        values = self.values = by_name(headers)
        self.content_type = b"".join(values(b"content-type")[:1]).lower()

    def tokens(self, name: bytes) -> list[bytes]:
        """Return the comma-separated values of the header called ``name``, in lower case."""
        return tokens(self.values(name))


class ResponseError(ValueError):
    """The upstream's bytes are no response that can be passed on."""


class _Chunks:
    """The chunked body of a response, read by llhttp; ``ended``: not empty once its end has come.

    The parser refers to lists alone: a reference to this object would be a cycle.
    """

    def __init__(self) -> None:
        self.ended: list[bool] = []
        self._pieces: list[bytes] = []
        self._framing = 0
        end = partial(self.ended.append, True)
        callbacks = SimpleNamespace(on_body=self._pieces.append, on_message_complete=end)
        self._parser = HttpResponseParser(callbacks)
        self._parser.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)
        self._parser.feed_data(_CHUNKED_HEAD)

    def feed(self, data: bytes) -> bytes:
        """Return the data of all chunks in ``data``, joined, so that one read makes one write."""
        pieces = self._pieces
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            if not self.ended and _TRAILER.search(str(error)) is None:
                raise ResponseError(_BROKEN) from None
            self.ended.append(True)
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._framing += len(data) - len(body) * _MOST_FRAMING
        if self._framing > LONGEST_HEAD:
            raise ResponseError(_BROKEN)
        return body


class ResponseReader:
    """The reader of a response to a request with ``method``.

    ``feed`` takes bytes and returns those of the body among them; ``close`` takes the connection's
    end. Both raise ResponseError. ``head``: the final response's head, None until it is whole;
    ``done``: whether the body is whole.
    """

    def __init__(self, method: bytes) -> None:
        self.head: ResponseHead | None = None
        self.done = False
        self._method = method
        self._head = bytearray()
        self._searched = 0
        self._interim = 0
        self._left: int | None = None  # bytes of the body; None: not known, or chunked
        self._chunks: _Chunks | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the body's bytes in ``data``, the next bytes received, without framing."""
        while self.head is None:
            rest = self._read_head(data)
            if rest is None:
                return b""
            data = rest
        if self.done:
            return b""
        chunks, left = self._chunks, self._left
        if chunks is not None:
            data = chunks.feed(data)
            self.done = bool(chunks.ended)
        elif left is not None:
            self._left = left - len(data)
            if len(data) >= left:
                self.done = True
                return data[:left]
        return data

    def close(self) -> None:
        """Take the end of the connection; raises ResponseError if it came too early."""
        if self.head is not None and self._left is None and self._chunks is None:
            self.done = True
        if not self.done:
            where = "before the response head was whole" if self.head is None else "mid-body"
            raise ResponseError(f"the upstream closed the connection {where}")

    def _read_head(self, data: bytes) -> bytes | None:
        """Read one head, interim or final; return the bytes behind it, None if it is not whole."""
        head = self._head
        head += data
        end = head.find(_HEAD_END, self._searched)
        at = len(head) - 3 if end < 0 else end
        if _BARE_LF.search(head, self._searched, min(LONGEST_HEAD, len(head) if end < 0 else end)):
            raise ResponseError("the upstream's response head has a line feed without a CR")
        if at > LONGEST_HEAD:
            raise ResponseError("the upstream's response head is too large")
        if end < 0:
            self._searched = max(0, at)
            return None
        status_line = _STATUS_LINE.match(head, 0, at)
        if status_line is None:
            raise ResponseError("the upstream's answer is not HTTP/1.1")
        status, reason = int(status_line[2]), status_line[3] or b""
        lines = bytes(head[status_line.end() : at])
        rest = bytes(head[at + len(_HEAD_END) :])
        head.clear()
        if status >= 200:
            fields = fields_of(lines)
            if fields is None:
                fields = fields_of(_OBS_FOLD.sub(b" ", lines))
            if fields is None:
                raise ResponseError("the upstream sent a malformed header line")
            self._begin_body(ResponseHead(status, reason, fields))
            return rest
        self._searched = 0
        self._interim += 1
        if status == 101 or self._interim > _MOST_INTERIM:
            raise ResponseError(f"the upstream sent an unexpected {status} response")
        return rest

    def _begin_body(self, head: ResponseHead) -> None:
        """Determine the body's length by the steps of RFC 9112, section 6.3, in their order."""
        lengths, codings = head.values(b"content-length"), head.values(b"transfer-encoding")
        if lengths:
            length = lengths[0]
            if len(lengths) > 1 or not length.isdigit() or len(length) >= _TOO_LONG:
                head = _one_length(head, lengths)  # equal ones: RFC 9110, section 8.6
                (length,) = head.values(b"content-length")
            head.length = int(length)
        if self._method == b"HEAD" or head.status in _BODILESS:
            self._left = 0
        elif codings:
            if tokens(codings) != [b"chunked"]:
                raise ResponseError("the upstream's Transfer-Encoding is not chunked")
            head.length = None
            self._chunks = _Chunks()
        else:
            self._left = head.length
        self.head, self.done = head, self._left == 0


def _one_length(head: ResponseHead, lengths: list[bytes]) -> ResponseHead:
    """Return ``head`` with one Content-Length; raises ResponseError unless all are one number."""
    found = tokens(lengths)
    length = found[0]
    if len(set(found)) > 1 or not length.isdigit() or len(length) >= _TOO_LONG:
        raise ResponseError("the upstream's Content-Length is not a valid number")
    kept = [field for field in head.headers if field[0].lower() != b"content-length"]
    return ResponseHead(head.status, head.reason, (*kept, (b"Content-Length", length)))
