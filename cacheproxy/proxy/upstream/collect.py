"""A whole response body, for those who cannot do with pieces of it."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.proxy.upstream.connection import UpstreamResponse


class Collect(Protocol):
    """Keeps a body up to ``most`` bytes.

    ``done`` fires with it, or errbacks when it broke off (the upstream's reason) or was too
    long (ResponseError). Cancelling it closes the upstream.
    """

    def __init__(self, response: UpstreamResponse, most: int) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: response.connection.abort())
        self._response = response
        self._most = most
        self._chunks: list[bytes] = []
        self._size = 0

    def dataReceived(self, data: bytes) -> None:
        """Keep a piece."""
        self._chunks.append(data)
        self._size += len(data)
        if self._size > self._most and not self.done.called:
            self._response.connection.abort()
            self.done.errback(ResponseError(f"the upstream's answer is over {self._most} bytes"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The body has ended, wholly or not."""
        if self.done.called:
            return
        if reason.check(ResponseDone):
            self.done.callback(b"".join(self._chunks))
        else:
            self.done.errback(reason)


def collect(response: UpstreamResponse, most: int) -> Deferred[bytes]:
    """Fire with the body of ``response``."""
    collecting = Collect(response, most)
    response.deliverBody(collecting)
    return collecting.done
