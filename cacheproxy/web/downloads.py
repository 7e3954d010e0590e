"""GET /_cacheproxy/requests.csv and conversations.csv: what a window has, page by page."""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.totals.migrations import TotalsError
from cacheproxy.totals.table import START, TABLES, page
from cacheproxy.totals.totals import Source
from cacheproxy.totals.windows import WINDOWS
from cacheproxy.web.dashboard import window_of
from cacheproxy.web.pages import DirectPage, PageError, begin, failed, only, query_of

_log = Logger()


def downloads(source: Source) -> dict[bytes, DirectPage]:
    """Return the pages by their paths."""
    return {
        b"/_cacheproxy/%s.csv" % name.encode(): partial(_download, source, name) for name in TABLES
    }


def _download(source: Source, name: str, request: ProxyRequest) -> bytes | int:
    only(request)
    window = WINDOWS[window_of(query_of(request))]
    if request.method == b"HEAD":
        _begin(request, name)
        return b""
    download = _Download(source, name, window.start(source.now), request)
    request.register_producer(download)
    left = request.notifyFinish()
    done = Deferred.fromCoroutine(download.run())
    left.addErrback(lambda _: done.cancel())
    done.addErrback(download.broke)
    return NOT_DONE_YET


@implementer(IPushProducer)
class _Download:
    """One answer; the next page is asked for when the client has taken the one before."""

    def __init__(self, source: Source, name: str, since: int, request: ProxyRequest) -> None:
        self._source = source
        self._name = name
        self._since = since
        self._request = request
        self._paused: Deferred[None] | None = None
        self._is_gone = False

    async def run(self) -> None:
        """Write all pages."""
        after: tuple[int, int] | None = START
        while after is not None:
            text, following = await self._source.ask(page, self._name, self._since, after)
            if after == START:
                _begin(self._request, self._name)
            self._request.write(text.encode())
            after = following
            if self._paused is not None:
                await self._paused
        self._request.unregister_producer()
        self._request.finish()

    def broke(self, failure: Failure) -> None:
        """Say so where that is still possible; else cut it off, so that it is not taken for all."""
        if self._is_gone:
            return
        why = "an internal error; see the proxy's log"
        if failure.check(TotalsError):
            why = failure.getErrorMessage()
        else:
            _log.failure("a table failed", failure)
        self._request.unregister_producer()
        if self._request.started:
            self._request.channel.abort()
        else:
            self._request.write(failed(self._request, PageError(why, 503)))
            self._request.finish()

    def pauseProducing(self) -> None:
        """The client does not keep up."""
        if self._paused is None:
            self._paused = Deferred()

    def resumeProducing(self) -> None:
        """It does again."""
        paused, self._paused = self._paused, None
        if paused is not None:
            paused.callback(None)

    def stopProducing(self) -> None:
        """The client is gone."""
        self._is_gone = True


def _begin(request: ProxyRequest, name: str) -> None:
    as_file = b'attachment; filename="%s.csv"' % name.encode()
    kind = b"text/csv; charset=utf-8; header=present"
    begin(request, kind, ((b"Content-Disposition", as_file),))
