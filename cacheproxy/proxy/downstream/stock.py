"""The proxy's own pages, rendered by twisted.web's Request.

Every twisted.web resource can be mounted there: ``static.File``, a WSGIResource. The connection,
its limits and the framing of the answer stay the proxy's.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from twisted.internet.interfaces import (
    IDelayedCall,
    IPullProducer,
    IPushProducer,
    IReactorTime,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.server import NOT_DONE_YET, Request, Site
from zope.interface import implementer

from cacheproxy.core.http1.headers import end_to_end
from cacheproxy.proxy.downstream.request import ProxyRequest

_log = Logger()
_OURS = frozenset({b"server", b"date"})
"""Headers that twisted.web adds, and that the proxy's answers leave out."""


def render(down: ProxyRequest, site: Site, clock: IReactorTime) -> int:
    """Render ``down`` by a resource of ``site``; return NOT_DONE_YET."""
    channel = _Channel(down, site, clock)
    request = Request(channel, parsePOSTFormSubmission=False)
    for name, value in down.headers:
        request.requestHeaders.addRawHeader(name, value)
    request.content = BytesIO(down.body)  # twisted.web would make a file of a large one

    def gone(reason: Failure) -> None:
        channel.unregisterProducer()  # else a pull producer would be called for ever
        request.connectionLost(reason)

    down.on_gone = gone
    # As HTTP/1.0, so that twisted.web does not chunk the answer: ``down`` does, if needed.
    request.requestReceived(down.method, down.uri, b"HTTP/1.0")
    return NOT_DONE_YET


class _Channel:
    """The channel and transport of twisted.web's Request, as far as it uses them."""

    factory = None
    producer: IPushProducer | None = None

    def __init__(self, down: ProxyRequest, site: Site, clock: IReactorTime) -> None:
        self.site = site
        self.transport = self
        self._down = down
        self._clock = clock
        self._ends = down.channel.transport
        self.isSecure = lambda: down.secure
        self.getPeer, self.getHost = self._ends.getPeer, self._ends.getHost
        self.write = down.write
        self.abortConnection, self.loseConnection = down.channel.abort, down.channel.close

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: Headers) -> None:  # noqa: ARG002, N802 - Twisted's names
        """Send the answer's head."""
        fields = [(name, one) for name, values in headers.getAllRawHeaders() for one in values]
        self._down.send_head(int(code), reason, end_to_end(tuple(fields), _OURS))

    def writeSequence(self, pieces: list[bytes]) -> None:  # noqa: N802 - Twisted's name
        """Write all ``pieces``."""
        self.write(b"".join(pieces))

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802 - Twisted's
        """Pause ``producer`` while the client does not read; not ``streaming``: pull from it."""
        found = producer if streaming else _Pushing(producer, self, self._clock)
        self.producer = found
        self._down.channel.producer = found

    def unregisterProducer(self) -> None:  # noqa: N802 - Twisted's name
        """Pause and resume the producer no more."""
        self._down.channel.producer = None
        producer, self.producer = self.producer, None
        if isinstance(producer, _Pushing):
            producer.pauseProducing()

    def requestDone(self, request: Request) -> None:  # noqa: ARG002, N802 - Twisted's names
        """Finish the answer."""
        self._down.finish()


@implementer(IPushProducer)
class _Pushing:
    """A push producer around a pull producer, from which it pulls once in each reactor turn.

    A transport may pause it several times before it resumes it once, or resume it without a pause.
    """

    def __init__(self, producer: IPullProducer, channel: _Channel, clock: IReactorTime) -> None:
        self._producer = producer
        self._channel = channel
        self._clock = clock
        self._next: IDelayedCall | None = None
        self.resumeProducing()

    def resumeProducing(self) -> None:
        """Pull again in the next turn."""
        if self._next is None:
            self._next = self._clock.callLater(0, self._ask)

    def pauseProducing(self) -> None:
        """Pull no more until ``resumeProducing``."""
        pending, self._next = self._next, None
        if pending is not None:
            pending.cancel()

    def stopProducing(self) -> None:
        """Stop the producer, which closes its files: the client has left."""
        self.pauseProducing()
        self._producer.stopProducing()

    def _ask(self) -> None:
        self._next = self._clock.callLater(0, self._ask)  # before the pull, which may pause it
        try:
            self._producer.resumeProducing()
        except Exception:
            _log.failure("a page failed")
            self.pauseProducing()
            self._channel.abortConnection()
