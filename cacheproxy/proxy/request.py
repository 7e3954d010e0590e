"""A request on the downstream side."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from twisted.web.server import NOT_DONE_YET, Request

from cacheproxy.proxy.errors import error_body

if TYPE_CHECKING:
    from cacheproxy.proxy.channel import ProxyChannel

_SMALL = 4096
"""Bytes of a piece below which pieces are gathered: each object of its own costs 30 bytes more,
which made 290 MB of 10 MB that came in chunks of two bytes."""


class ProxyRequest(Request):
    """A request whose body is bytes in memory, and whose target is left as it came."""

    defaultContentType = None
    channel: ProxyChannel

    def __init__(self, channel: ProxyChannel, *arguments: Any, **keywords: Any) -> None:
        super().__init__(channel, *arguments, **keywords)
        self.body = b""
        self._chunks: list[bytes | bytearray] = []
        self._size = 0

    def gotLength(self, length: int | None) -> None:
        """Keep no file: chunks are joined once, when the last has come."""

    def handleContentChunk(self, data: bytes) -> None:
        """Keep a chunk of the body; refuse the request when there are too many (chunked)."""
        self._size += len(data)
        if self._size > self.channel.limits.body:
            self._chunks.clear()
            self.channel.refuse_body()
        elif len(data) >= _SMALL:
            self._chunks.append(data)
        elif self._chunks and isinstance(self._chunks[-1], bytearray):
            self._chunks[-1] += data
        else:
            self._chunks.append(bytearray(data))

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Take the whole request: no form parsing, no query parsing."""
        self.method, self.uri, self.clientproto = command, path, version
        self.path = path.partition(b"?")[0]
        self.args = {}
        self.body = b"".join(self._chunks)
        self._chunks.clear()
        self.process()

    def process(self) -> None:
        """Hand the request to the site's resource, without Server, Date or Content-Type added."""
        self.site = self.channel.site
        self.prepath, self.postpath = [], []
        try:
            body = self.site.resource.render(self)
        except Exception:
            self._log.failure("the resource failed")
            body = self.answer(500, "an internal error; the log says more")
        if body is not NOT_DONE_YET:
            self.write(body)
            self.finish()

    def answer(self, status: int, message: str) -> bytes:
        """Set status and headers for an error of our own; return its body, in the dialect."""
        body = error_body(self.path.decode("latin-1"), status, message)
        self.setResponseCode(status, HTTPStatus(status).phrase.encode())
        self.setHeader(b"Content-Type", b"application/json")
        self.setHeader(b"Content-Length", b"%d" % len(body))
        return body
