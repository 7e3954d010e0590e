"""A look at a short body before it goes on, as if nobody had looked."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone

from cacheproxy.proxy.upstream.connection import UpstreamResponse


class _Peek(Protocol):
    """Holds a body back until it is whole, has broken off, or is longer than ``most`` bytes."""

    def __init__(self, response: UpstreamResponse, most: int) -> None:
        self.done: Deferred[bytes | None] = Deferred(lambda _: response.connection.abort())
        self._response = response
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0

    def dataReceived(self, data: bytes) -> None:
        """Keep a piece."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size > self._most:
            self._response.connection.pauseProducing()
            self._tell(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The body has ended, wholly or not."""
        self._tell(b"".join(self._pieces) if reason.check(ResponseDone) else None)

    def _tell(self, body: bytes | None) -> None:
        if not self.done.called:
            self._response.take_back(self._pieces)
            self.done.callback(body)


def peek(response: UpstreamResponse, most: int) -> Deferred[bytes | None]:
    """Fire with the body of ``response``, None if it is over ``most`` bytes or breaks off.

    It can be delivered afterwards all the same. Cancelling closes the upstream.
    """
    peeking = _Peek(response, most)
    response.deliverBody(peeking)
    return peeking.done
