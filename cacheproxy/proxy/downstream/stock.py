"""A request rendered by twisted.web's own Request, for our own pages.

Whatever is made for twisted.web can be mounted there: ``static.File``, a WSGIResource. The
connection, its limits and the framing of the answer stay ours.
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
"""Headers by which twisted.web says what it is; no answer of ours has them."""


def render(down: ProxyRequest, site: Site, clock: IReactorTime) -> int:
    """Have ``down`` answered by a resource of ``site``, at once or later."""
    channel = _Channel(down, site, clock)
    request = Request(channel, parsePOSTFormSubmission=False)
    for name, value in down.headers:
        request.requestHeaders.addRawHeader(name, value)
    request.content = BytesIO(down.body)  # where twisted.web would make a file of a large one

    def gone(reason: Failure) -> None:
        channel.unregisterProducer()  # else it would be asked for ever
        request.connectionLost(reason)

    down.on_gone = gone
    # A request of HTTP/1.0 puts no chunks around its answer: that is done here, where it is needed.
    request.requestReceived(down.method, down.uri, b"HTTP/1.0")
    return NOT_DONE_YET


class _Channel:
    """What twisted.web's Request needs of its channel, and of its transport."""

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
        """Give the answer's head."""
        fields = [(name, one) for name, values in headers.getAllRawHeaders() for one in values]
        self._down.send_head(int(code), reason, end_to_end(tuple(fields), _OURS))

    def writeSequence(self, pieces: list[bytes]) -> None:  # noqa: N802 - Twisted's name
        """Write them all."""
        self.write(b"".join(pieces))

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802 - Twisted's
        """Pause ``producer`` while the client does not read; ask one that does not push."""
        found = producer if streaming else _Pushing(producer, self, self._clock)
        self.producer = found
        self._down.channel.producer = found

    def unregisterProducer(self) -> None:  # noqa: N802 - Twisted's name
        """Leave it alone from now on."""
        self._down.channel.producer = None
        producer, self.producer = self.producer, None
        if isinstance(producer, _Pushing):
            producer.pauseProducing()

    def requestDone(self, request: Request) -> None:  # noqa: ARG002, N802 - Twisted's names
        """The answer is whole."""
        self._down.finish()


@implementer(IPushProducer)
class _Pushing:
    """Asks a producer that waits to be asked, once in each turn of the reactor.

    A transport may pause it several times before it lets it go on once, or let it go on that was
    never paused.
    """

    def __init__(self, producer: IPullProducer, channel: _Channel, clock: IReactorTime) -> None:
        self._producer = producer
        self._channel = channel
        self._clock = clock
        self._next: IDelayedCall | None = None
        self.resumeProducing()

    def resumeProducing(self) -> None:
        """Go on."""
        if self._next is None:
            self._next = self._clock.callLater(0, self._ask)

    def pauseProducing(self) -> None:
        """Ask no more until it goes on."""
        pending, self._next = self._next, None
        if pending is not None:
            pending.cancel()

    def stopProducing(self) -> None:
        """The client is gone: the producer may close what it has open."""
        self.pauseProducing()
        self._producer.stopProducing()

    def _ask(self) -> None:
        self._next = self._clock.callLater(0, self._ask)  # first: it may be paused meanwhile
        try:
            self._producer.resumeProducing()
        except Exception:
            _log.failure("a page failed")
            self.pauseProducing()
            self._channel.abortConnection()
