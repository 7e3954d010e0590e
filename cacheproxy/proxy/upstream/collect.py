"""A whole response body: to keep, or to inspect before it is relayed unchanged."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.proxy.upstream.connection import UpstreamConnection


class _TooLongError(Exception):
    """There is more than was wanted."""


class _Gathering:
    """Keeps a body up to ``most`` bytes.

    ``done`` fires when it is whole. It errbacks with the upstream's reason if it broke off, with
    _TooLongError if it is longer. Cancelling it closes the upstream.
    """

    def __init__(self, response: UpstreamConnection, most: int) -> None:
        self.done: Deferred[None] = Deferred(lambda _: response.abort())
        self.pieces: list[bytes] = []
        self._left = most
        response.deliver(self)

    def take(self, data: bytes) -> None:
        """Keep a piece."""
        self.pieces.append(data)
        self._left -= len(data)
        if self._left < 0 and not self.done.called:
            self.done.errback(_TooLongError())

    def end(self, why: Failure | None) -> None:
        """Take note that the body has ended, wholly or not."""
        if not self.done.called:
            self.done.callback(None) if why is None else self.done.errback(why)


async def collect(response: UpstreamConnection, most: int) -> bytes:
    """Return the body of ``response``; raises what broke it off, ResponseError if it is too long.

    ``most``: bytes. Cancelled, it closes the upstream.
    """
    gathering = _Gathering(response, most)
    try:
        await gathering.done
    except _TooLongError:
        response.abort()
        raise ResponseError(f"the upstream's answer is over {most} bytes") from None
    return b"".join(gathering.pieces)


async def peek(response: UpstreamConnection, most: int) -> bytes | None:
    """Return the body of ``response``, None if it is over ``most`` bytes or breaks off.

    It can be delivered afterwards all the same. Cancelled, it closes the upstream.
    """
    gathering = _Gathering(response, most)
    try:
        await gathering.done
    except CancelledError:
        raise
    except _TooLongError:
        response.pauseProducing()
        whole = False
    except Exception:  # whoever it is delivered to next is told
        whole = False
    else:
        whole = True
    response.take_back(gathering.pieces)
    return b"".join(gathering.pieces) if whole else None
