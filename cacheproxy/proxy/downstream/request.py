"""A request on the downstream side, and its answer.

Error bodies are in the client's own dialect, so that its SDK shows our message.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.dialects.dialects import spoken
from cacheproxy.core.http1.headers import values
from cacheproxy.core.http1.request_head import RequestHead
from cacheproxy.core.http1.request_reader import RequestReader
from cacheproxy.core.privacy.origins import NOT_SHARED, Sharing
from cacheproxy.core.prompt.request import Headers
from cacheproxy.proxy.transport import eager

_BODILESS = (204, 304)
"""Statuses of answers without a body. Content-Length is left out, too: RFC 9110, section 8.6,
forbids it to 204; with 304 it is the length of another answer, and clients have waited for it."""
_REASONS = {int(status): status.phrase.encode() for status in HTTPStatus}

_JSON: Headers = ((b"Content-Type", b"application/json"),)
_MORE = {401: b"WWW-Authenticate: Bearer\r\n", 503: b"Retry-After: 1\r\n"}


class Connection(Protocol):
    """The part of a connection that its requests use."""

    transport: Any
    producer: IPushProducer | None
    """Producer that is paused while the client does not read, and stopped when it leaves."""
    is_aborted: bool
    """Whether the connection is being closed with a reset: nothing may be sent any more."""

    peer: str
    """The client's address, "" if it is this machine."""

    def make_room(self, size: int) -> Deferred[None] | None:
        """Reserve room for the unpacked body, ``size`` bytes; fire when there is, None: now."""

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def is_ending(self) -> bool:
        """Whether the connection closes after this request's answer."""

    def done(self) -> None:
        """Take note that the answer is whole."""

    def close(self) -> None:
        """Close when all written bytes have been sent."""

    def abort(self) -> None:
        """Close at once, with a reset."""


class ProxyRequest:
    """A whole request: the head as it came, the body as bytes in memory.

    The answer begins with ``send_head``; its bytes wait for the first ``write``, ``flush`` or
    ``finish``, so that head and body go out together. Nothing is written once the client has left.
    ``framed``: whether the framing shows the end, so that an incomplete answer can be recognised;
    known from ``send_head`` on.
    """

    def __init__(
        self, channel: Connection, head: RequestHead, body: bytes, sharing: Sharing = NOT_SHARED
    ) -> None:
        self.channel = channel
        self.method = head.method
        self.uri = head.target
        self.path = head.path
        self.version = head.version
        self.headers = head.headers
        self.values = head.values
        """Returns all values of a header, by its name in lower case."""
        self.body = body
        self.sharing = sharing
        self.started = False
        """Whether ``send_head`` was called."""
        self.finished = False
        self._unsent = b""
        self._lost = False
        self.on_gone: Callable[[Failure], object] | None = None
        """Callback, called once if the connection is lost before the answer's end."""

    @property
    def secure(self) -> bool:
        """Whether the request came over TLS."""
        return self.channel.secure

    # The answer.

    def send_head(self, status: int, reason: bytes, headers: Headers) -> None:
        """Begin the answer; ``headers``: end-to-end headers, with Content-Length if it is known.

        Without a length the body is chunked; for HTTP/1.0 it ends with the connection.
        """
        assert not self.started, "an answer has one head"
        self.started = True
        lines = [b"%b %d %b" % (self.version, status, reason)]
        if status in _BODILESS:
            headers = tuple([field for field in headers if field[0].lower() != b"content-length"])
        lines += map(b": ".join, (*headers, *self.sharing.headers))
        has_length = bool(values(headers, b"content-length"))
        # RFC 9112, section 6.3: these answers have no body, even if their headers announce one.
        self._bodiless = self.method == b"HEAD" or status in _BODILESS
        chunked = not (has_length or self._bodiless) and self.version == b"HTTP/1.1"
        if chunked:
            lines.append(b"Transfer-Encoding: chunked")
        self.framed, self._chunked = has_length or chunked, chunked
        if self.channel.is_ending:
            lines.append(b"Connection: close")
        self._unsent = b"\r\n".join(lines) + b"\r\n\r\n"

    def write(self, data: bytes, *, waits: bool = False) -> None:
        """Write a piece of the body; ``waits``: it goes out with the next piece or the end."""
        assert self.started, "the head comes first"
        assert not self.finished, "nothing comes behind the end"
        if self._lost:
            return
        if self._bodiless or not data:
            data = self._unsent
        elif self._chunked:
            data = b"%b%x\r\n%b\r\n" % (self._unsent, len(data), data)
        elif self._unsent:
            data = self._unsent + data
        self._unsent = data if waits else b""
        if data and not waits and not self.channel.is_aborted:
            eager.write(self.channel.transport, data)

    def flush(self) -> None:
        """Send the bytes that wait for the next write."""
        if self._unsent:
            self.write(b"")

    def finish(self) -> None:
        """End the answer, which is whole."""
        assert self.started, "the head comes first"
        assert not self.finished, "an answer has one end"
        if self._lost:
            return
        self.finished = True
        self.on_gone = None  # breaks a reference cycle, which would retain the whole exchange
        end = self._unsent + b"0\r\n\r\n" if self._chunked else self._unsent
        self._unsent = b""
        if end and not self.channel.is_aborted:
            eager.write(self.channel.transport, end)
        self.channel.done()

    def answer(self, status: int, body: bytes, headers: Headers = ()) -> int:
        """Send a whole answer made by the proxy; return NOT_DONE_YET, for a Resource's render."""
        length = (b"Content-Length", b"%d" % len(body))
        self.send_head(status, reason_of(status), (*headers, length))
        self.write(body)
        self.finish()
        return NOT_DONE_YET

    def refuse(self, status: int, message: str) -> int:
        """Answer with an error made by the proxy, in the path's dialect."""
        return self.answer(status, error_body(self.path.decode("latin-1"), status, message), _JSON)

    # Called by the channel.

    def lost(self, reason: Failure) -> None:
        """Take note that the connection is lost, and call ``on_gone``."""
        self._lost = True
        callback, self.on_gone = self.on_gone, None
        if callback is not None:
            callback(reason)


def reason_of(status: int) -> bytes:
    """Return the reason phrase of ``status``."""
    return _REASONS.get(status, b"Unknown Status")


def error_body(path: str, status: int, message: str) -> bytes:
    """Return a JSON body with the error ``message``, in the dialect of ``path``."""
    return json.dumps(spoken(path).error(status, f"cacheproxy: {message}")).encode()


def refusal(reader: RequestReader, status: int, message: str, sharing: Sharing) -> bytes:
    """Return a whole error answer, after which the connection closes.

    ``reader``: the reader of the request, which may have come only in part.
    """
    body = error_body(reader.path.decode("latin-1"), status, message)
    more = _MORE.get(status, b"") + b"".join([b"%b: %b\r\n" % field for field in sharing.headers])
    is_bodiless = reader.head is not None and reader.head.method == b"HEAD"  # RFC 9110, 9.3.2
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"%sConnection: close\r\n\r\n" % (status, reason_of(status), len(body), more)
    ) + (b"" if is_bodiless else body)
