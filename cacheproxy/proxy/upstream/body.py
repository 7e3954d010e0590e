"""The body of a response, read as a whole, up to a limit."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.proxy.upstream.connection import WHOLE, UpstreamConnection


class _Collecting(Protocol):
    """The collector of a body of ``most`` bytes at most; ``reason``: its end, None before that."""

    def __init__(self, most: int) -> None:
        self.pieces: list[bytes] = []
        self.reason: Failure | None = None
        self._done: Deferred[None] | None = None
        self._left = most

    def start(self, response: UpstreamConnection) -> Deferred[None]:
        """Fire when the body has ended, is over the limit, or ``give_up`` is called.

        Cancelling closes the upstream, unless the body has got another reader by then.
        """

        def unwanted(_: Deferred[None]) -> None:
            self._done = None
            response.close_unread_by(self)

        done: Deferred[None] = Deferred(unwanted)
        self._done = done
        response.deliverBody(self)
        return done

    def dataReceived(self, data: bytes) -> None:
        """Add a piece of the body."""
        self.pieces.append(data)
        self._left -= len(data)
        if self._left < 0:
            self.give_up()

    def give_up(self) -> None:
        """Fire now, without the rest of the body."""
        done, self._done = self._done, None
        if done is not None:
            done.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Take note that the body has ended, whole or not."""
        self.reason = reason
        self.give_up()

    @property
    def is_whole(self) -> bool:
        """Whether the whole body has come, within the limit."""
        return self.reason is WHOLE and self._left >= 0


async def collect(response: UpstreamConnection, most: int) -> bytes:
    """Return the body of ``response``, of ``most`` bytes at most.

    Raises ResponseError if it is longer, and the failure if it breaks off. Cancelling closes the
    upstream, unless the body has got another reader by then.
    """
    reading = _Collecting(most)
    await reading.start(response)
    if not reading.is_whole:
        if reading.reason is None or reading.reason is WHOLE:
            response.abort()
            raise ResponseError(f"the upstream's answer is over {most} bytes")
        reading.reason.raiseException()
    return b"".join(reading.pieces)


async def peek(response: UpstreamConnection, most: int, clock: Any, seconds: float) -> bytes | None:
    """Return the body of ``response``, and leave it to be delivered again from its beginning.

    None if it is over ``most`` bytes, breaks off, or is not whole after ``seconds`` of ``clock``.
    Cancelling closes the upstream.
    """
    reading = _Collecting(most)
    done = reading.start(response)
    limit = clock.callLater(seconds, reading.give_up)
    try:
        await done
    finally:
        if limit.active():
            limit.cancel()
    if reading.reason is None:
        response.pauseProducing()
    return b"".join(reading.pieces) if reading.is_whole else None
