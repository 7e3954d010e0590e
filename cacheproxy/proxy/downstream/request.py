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
from cacheproxy.core.http1.request_head import RequestHead
from cacheproxy.core.http1.request_reader import RequestReader
from cacheproxy.core.privacy.origins import NOT_SHARED, Sharing
from cacheproxy.core.prompt.request import Headers
from cacheproxy.proxy.transport import eager

_LENGTH_SIZE = len(b"content-length")
_BODILESS = (204, 304)
"""Nor do they say a length: RFC 9110, section 8.6, forbids it to 204. A 304's would be another
answer's, and clients have waited for as many bytes."""
_REASONS = {int(status): status.phrase.encode() for status in HTTPStatus}

_JSON: Headers = ((b"Content-Type", b"application/json"),)
_MORE = {401: b"WWW-Authenticate: Bearer\r\n", 503: b"Retry-After: 1\r\n"}


class Connection(Protocol):
    """What a request needs of the connection that it came on."""

    transport: Any
    producer: IPushProducer | None
    """Who is paused while the client does not read, and stopped when it leaves."""
    is_aborted: bool
    """Whether it is being closed with a reset: nothing may be sent any more."""

    peer: str
    """The client's address, "" where it is this machine."""

    def make_room(self, size: int) -> Deferred[None] | None:
        """Have room for the body once it is unpacked, ``size`` bytes in all; None if there is."""

    @property
    def secure(self) -> bool:
        """Whether it is encrypted."""

    @property
    def is_ending(self) -> bool:
        """Whether no request after this one is answered."""

    def done(self) -> None:
        """Take note that the answer is whole."""

    def close(self) -> None:
        """Close when all that was written has been sent."""

    def abort(self) -> None:
        """Close at once, with a reset."""


class ProxyRequest:
    """A whole request: the head as it came, the body as bytes in memory.

    The answer begins with ``send_head``; its bytes wait for the first ``write``, ``flush`` or
    ``finish``, so that head and body go out together. Nothing is written once the client has left.
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
        self.connection = head.connection
        """What Connection names, in lower case."""
        self.body = body
        self.sharing = sharing
        self.started = False
        """Whether the answer's head has been given."""
        self.framed = False
        """Whether an answer that ends early can be told from a whole one."""
        self.finished = False
        self._chunked = False
        self._bodiless = False
        self._unsent = b""
        self._lost = False
        self.on_gone: Callable[[Failure], object] | None = None
        """Is called, once, if the connection is lost before the answer's end."""

    @property
    def secure(self) -> bool:
        """Whether it came over TLS."""
        return self.channel.secure

    # The answer.

    def send_head(self, status: int, reason: bytes, headers: Headers) -> None:
        """Give the answer's head: end-to-end headers, and the length if it is known.

        Without a length the body is chunked; for HTTP/1.0, it ends with the connection.
        """
        assert not self.started, "an answer has one head"
        self.started = True
        lines = [b"%b %d %b" % (self.version, status, reason)]
        if status in _BODILESS:
            headers = tuple([field for field in headers if field[0].lower() != b"content-length"])
        lines += map(b": ".join, (*headers, *self.sharing.headers))
        has_length = False
        for name, _ in headers:
            if len(name) == _LENGTH_SIZE and name.lower() == b"content-length":
                has_length = True
        # RFC 9112, section 6.3: these have no body, whatever their headers say.
        self._bodiless = self.method == b"HEAD" or status in _BODILESS
        if not has_length and not self._bodiless and self.version == b"HTTP/1.1":
            self._chunked = True
            lines.append(b"Transfer-Encoding: chunked")
        self.framed = has_length or self._chunked
        if self.channel.is_ending:
            lines.append(b"Connection: close")
        lines.append(b"\r\n")
        self._unsent = b"\r\n".join(lines)

    def write(self, data: bytes, *, waits: bool = False) -> None:
        """Write a piece of the body; one that ``waits`` goes out with what is written next."""
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
        """Send what still waits."""
        if self._unsent:
            self.write(b"")

    def finish(self) -> None:
        """End the answer: it was whole."""
        assert self.started, "the head comes first"
        assert not self.finished, "an answer has one end"
        if self._lost:
            return
        self.finished = True
        self.on_gone = None  # else who answered would be kept, by a cycle, with all it has read
        end = self._unsent + b"0\r\n\r\n" if self._chunked else self._unsent
        self._unsent = b""
        if end and not self.channel.is_aborted:
            eager.write(self.channel.transport, end)
        self.channel.done()

    def answer(self, status: int, body: bytes, headers: Headers = ()) -> int:
        """Give a whole answer of our own making; return what a Resource's render does."""
        length = (b"Content-Length", b"%d" % len(body))
        self.send_head(status, reason_of(status), (*headers, length))
        self.write(body)
        self.finish()
        return NOT_DONE_YET

    def refuse(self, status: int, message: str) -> int:
        """Answer with an error of our own, in the dialect."""
        return self.answer(status, error_body(self.path.decode("latin-1"), status, message), _JSON)

    # Who else has to do with it.

    def lost(self, reason: Failure) -> None:
        """Take note that the connection is gone. For the channel."""
        self._lost = True
        callback, self.on_gone = self.on_gone, None
        if callback is not None:
            callback(reason)


def reason_of(status: int) -> bytes:
    """Return the reason phrase that goes with ``status``."""
    return _REASONS.get(status, b"Unknown Status")


def error_body(path: str, status: int, message: str) -> bytes:
    """Return a JSON body saying ``message``, in the shape that clients of ``path`` expect."""
    return json.dumps(spoken(path).error(status, f"cacheproxy: {message}")).encode()


def refusal(asked: RequestReader, status: int, message: str, sharing: Sharing) -> bytes:
    """Return a whole answer to what has been ``asked`` so far; the connection closes behind it."""
    body = error_body(asked.path.decode("latin-1"), status, message)
    more = _MORE.get(status, b"") + b"".join([b"%b: %b\r\n" % field for field in sharing.headers])
    is_bodiless = asked.head is not None and asked.head.method == b"HEAD"  # RFC 9110, 9.3.2
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"%sConnection: close\r\n\r\n" % (status, reason_of(status), len(body), more)
    ) + (b"" if is_bodiless else body)
