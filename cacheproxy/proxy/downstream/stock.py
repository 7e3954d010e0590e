"""A request rendered by twisted.web's own Request, for our own pages.

Whatever is made for twisted.web can be mounted there: ``static.File``, a WSGIResource. The
connection, its limits and the framing of the answer stay ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from twisted.internet.interfaces import IPullProducer, IPushProducer, IReactorTime
from twisted.internet.task import Cooperator
from twisted.logger import Logger
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
    request = Request(_Channel(down, site, clock), parsePOSTFormSubmission=False)
    for name, value in down.headers:
        request.requestHeaders.addRawHeader(name, value)
    request.content = BytesIO(down.body)  # where twisted.web would make a file of a large one
    down.on_gone = request.connectionLost
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
            producer.stopProducing()

    def requestDone(self, request: Request) -> None:  # noqa: ARG002, N802 - Twisted's names
        """The answer is whole."""
        self._down.finish()


@implementer(IPushProducer)
class _Pushing:
    """Asks a producer that waits to be asked, once in each turn of the reactor."""

    def __init__(self, producer: IPullProducer, channel: _Channel, clock: IReactorTime) -> None:
        self._producer = producer
        self._is_over = False
        cooperator = Cooperator(lambda: lambda: True, lambda work: clock.callLater(0, work))
        self._task = cooperator.cooperate(self._ask())
        self._task.whenDone().addErrback(self._failed, channel)
        self.pauseProducing, self.resumeProducing = self._task.pause, self._task.resume

    def _ask(self) -> Iterator[None]:
        while not self._is_over:
            self._producer.resumeProducing()
            yield

    def _failed(self, why: Any, channel: _Channel) -> None:
        _log.failure("a page failed", why)
        channel.abortConnection()

    def stopProducing(self) -> None:
        """Ask no more."""
        self._is_over = True
