"""The response body on its way down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IReactorTime

    from cacheproxy.core.usage import UsageReader
    from cacheproxy.proxy.connection import UpstreamConnection
    from cacheproxy.proxy.request import ProxyRequest

_FLUSH_SECONDS = 10.0
"""How long a client may take to read what had come before its answer broke off."""


_MOST_KEPT = 64 << 20


class Relay(Protocol):
    """Writes chunks down as they come, unchanged and unbuffered; a tap reads a copy.

    The client's pauses pause the upstream. ``done`` fires with None when the body was whole, and
    errbacks when it was not; then the downstream connection closes without a terminator, so
    that the client cannot take a part for the whole. Cancelling ``done`` closes the upstream.
    """

    def __init__(
        self,
        request: ProxyRequest,
        connection: UpstreamConnection,
        tap: UsageReader | None,
        clock: IReactorTime,
        seconds: Callable[[], float],
        *,
        keep: bool = False,
    ) -> None:
        self.done: Deferred[None] = Deferred(lambda _: self._stop())
        self.bytes_down = 0
        self.first_byte: float | None = None
        self._request = request
        self._connection = connection
        self._tap = tap
        self._clock = clock
        self._seconds = seconds
        self._over = False
        self._kept: list[bytes] | None = [] if keep else None

    @property
    def body(self) -> bytes | None:
        """The body as far as it came, if it was to be kept; at most 64 MiB of it."""
        return None if self._kept is None else b"".join(self._kept)

    def connectionMade(self) -> None:
        """Let the client's pauses pause the upstream."""
        self._request.registerProducer(self._connection, True)

    def dataReceived(self, data: bytes) -> None:
        """Pass a chunk on."""
        if self._over:
            return
        if self.first_byte is None:
            self.first_byte = self._seconds()
        self.bytes_down += len(data)
        self._request.write(data)
        if self._kept is not None and self.bytes_down <= _MOST_KEPT:
            self._kept.append(data)
        if self._tap is not None:
            self._tap.feed(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The body has ended: cleanly if it was whole, else by breaking off."""
        if self._over:
            return
        self._over = True
        self._request.unregisterProducer()
        if reason.check(ResponseDone):
            self._request.finish()
            self.done.callback(None)
        else:
            self._break_off()
            self.done.errback(reason)

    def _stop(self) -> None:
        """The client has left: close the upstream at once."""
        self._over = True
        self._connection.abort()

    def _break_off(self) -> None:
        """Send what came, then close without saying that this was all.

        A body that ends with the connection (HTTP/1.0) has only a reset to say so.
        """
        channel = self._request.channel
        framed = self._request.chunked or self._request.responseHeaders.hasHeader("content-length")
        if not framed:
            channel.abort()
            return
        channel.loseConnection()
        self._clock.callLater(_FLUSH_SECONDS, channel.abort)
