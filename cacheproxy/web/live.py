"""GET /_cacheproxy/live: server-sent events on the proxy's work.

``event: requests`` has the last requests when a page connects, then those finished since; ``event:
data`` has all figures of the page's window. They are computed, and encoded as JSON, once for all
pages (https://html.spec.whatwg.org/multipage/server-sent-events.html).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.web.server import NOT_DONE_YET, Request
from zope.interface import implementer

from cacheproxy import hookimpl, quick
from cacheproxy.record.exchange import Exchange
from cacheproxy.web.dashboard import LATEST, Dashboard, window_of
from cacheproxy.web.pages import PageError, begin, break_off, only, query_of

_log = Logger()
_CALM = {"15m": 2.0, "1h": 2.0, "24h": 10.0, "30d": 10.0}
"""Seconds after which news make a window's figures be computed again."""
_AGES = {"24h": 30.0, "30d": 30.0}
"""Seconds after which the sums of long windows, the costliest figures, are computed again."""
_STALE = 10.0
"""Seconds after which figures are sent without news: windows move on, servers go down."""
_AHEAD = 20
"""Requests sent in addition, which may finish meanwhile; pages ignore those that they have."""
_AFTER_TROUBLE = 3.0
"""Seconds after an error before the data are computed again."""
_PATIENCE = 20.0
"""Seconds after which a client that does not read is dropped."""
_MOST_PAGES = 256


@implementer(IPushProducer)
class _Page:
    """One open page; after a time without reading it gets all data anew."""

    def __init__(self, live: Live, request: Request, window: str) -> None:
        self.window = window
        self.paused_at: float | None = None
        self.missed = True
        self._live = live
        self._request = request

    def write(self, event: bytes) -> None:
        """Send ``event``; while the client does not read, only note that it missed something."""
        if self.paused_at is None:
            self._request.write(event)
        else:
            self.missed = True

    def pauseProducing(self) -> None:
        """Note the time from which the client does not read."""
        self.paused_at = self._live.clock.seconds()

    def resumeProducing(self) -> None:
        """Note that the client reads again."""
        self.paused_at = None

    def stopProducing(self) -> None:
        """Do nothing: the client is gone, which ``notifyFinish`` reports, too."""

    def end(self) -> None:
        """End the stream; the browser connects again by itself."""
        self._request.unregisterProducer()
        self._request.finish()

    def drop(self) -> None:
        """Close the connection at once."""
        break_off(self._request)


class Live:
    """The streams of all open pages, and the observer that notes news for them."""

    def __init__(self, dashboard: Dashboard, clock: IReactorTime) -> None:
        self.clock = clock
        self._dashboard = dashboard
        self._pages: set[_Page] = set()
        self._finished = 0
        self._again = 0.0
        self._changes = 0
        self._shown: dict[str, int] = {}
        self._sent: dict[str, float] = {}
        self._loop = LoopingCall(self._once)
        self._loop.clock = clock

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Note the news of finished exchanges."""
        self._finished += len(exchanges)
        self._changes += 1

    def looked(self) -> None:
        """Note that an upstream has come or gone: all windows' figures are due at once."""
        self._changes += 1
        self._sent.clear()

    def __call__(self, request: Request) -> bytes | int:
        """Begin a stream, and the checks for news with the first; PageError (503) for too many."""
        only(request, b"GET")
        page = _Page(self, request, window_of(query_of(request)))
        if len(self._pages) >= _MOST_PAGES:
            raise PageError(f"there are more than {_MOST_PAGES} open dashboards", 503)
        begin(request, b"text/event-stream")
        request.registerProducer(page, True)
        request.write(b"retry: 2000\n\n")
        self._pages.add(page)
        request.notifyFinish().addBoth(lambda _: self._pages.discard(page))
        if not self._loop.running:
            looking = self._loop.start(0.5, now=True)  # seconds between two checks for news
            looking.addErrback(lambda why: _log.failure("the dashboard's streams failed", why))
        return NOT_DONE_YET

    def close(self) -> None:
        """End all streams; browsers connect again, to the proxy that listens then."""
        for page in tuple(self._pages):
            page.end()
        self._pages.clear()

    def _once(self) -> Deferred[None] | None:
        """Send news to the open pages; without any, stop checking."""
        if not self._pages:
            self._finished = 0
            self._loop.stop()
            return None
        if self.clock.seconds() < self._again:
            return None
        return Deferred.fromCoroutine(self._tell_all()).addErrback(self._trouble)

    def _trouble(self, failure: Any) -> None:
        """Report an error to log and pages, and pause; the database logs its own errors."""
        self._again = self.clock.seconds() + _AFTER_TROUBLE
        why = failure.getErrorMessage()
        _log.debug("the dashboard has no data: {why}", why=why)
        event = _event("trouble", {"why": why})
        for page in tuple(self._pages):
            page.write(event)

    async def _tell_all(self) -> None:
        """Send new requests and due figures to all pages; drop clients that do not read."""
        now = self.clock.seconds()
        for page in tuple(self._pages):
            if page.paused_at is not None and now - page.paused_at > _PATIENCE:
                page.drop()
        finished, self._finished = self._finished, 0
        if finished:
            try:
                rows = await self._dashboard.last(min(finished + _AHEAD, LATEST))
            except Exception:
                self._finished += finished
                raise
            rows = rows[: finished + self._finished]  # others may have finished meanwhile
            event = _event("requests", {"all": False, "requests": rows})
            for page in tuple(self._pages):
                if not page.missed:
                    page.write(event)
        slow = {page for page in self._pages if page.missed and page.paused_at is None}
        if slow:
            rows = await self._dashboard.last()
            event = _event("requests", {"all": True, "requests": rows})
            for page in slow & self._pages:
                page.missed = False
                page.write(event)
        for window in sorted({page.window for page in self._pages}):
            await self._tell_window(window, slow)

    async def _tell_window(self, window: str, slow: set[_Page]) -> None:
        """Send the figures of ``window`` to its pages if due, else to those in ``slow`` alone."""
        now = self.clock.seconds()
        age = now - self._sent.get(window, -_STALE)
        changes = self._changes + self._dashboard.latest.changes
        changed = self._shown.get(window, 0) != changes
        due = age >= (_CALM[window] if changed else _STALE)
        told = {
            page
            for page in self._pages
            if page.window == window and (due or page in slow)
        }  # fmt: skip
        if not told:
            return
        if due:
            self._shown[window] = changes
            self._sent[window] = now
        age = 0.0 if told & slow else _AGES.get(window, 0.0)
        event = _event("data", await self._dashboard.snapshot(window, age))
        for page in told & self._pages:
            page.write(event)


def _event(name: str, value: Any) -> bytes:
    """Return an event; JSON has no line breaks of its own."""
    text = json.dumps(value, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode()
