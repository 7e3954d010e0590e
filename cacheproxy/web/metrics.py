"""GET /_cacheproxy/metrics: the page that Prometheus reads.

In the text format, or OpenMetrics where Accept asks for it; compressed only where Accept-Encoding
asks for it. prometheus-client's own resource for Twisted would choose the reactor by its import.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, generate_latest, gzip_accepted
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.metrics.counting import Metrics
from cacheproxy.metrics.snapshot import Now, Standing
from cacheproxy.web.pages import Content, Headers, failed, not_allowed, respond

if TYPE_CHECKING:
    from cacheproxy.proxy.downstream.request import ProxyRequest

_log = Logger()
PATH = b"/_cacheproxy/metrics"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_SOUND = re.compile(r"[A-Za-z0-9/;=., -]+")
_COMPRESSION = 1
"""The fastest: of 25 kB it leaves 2 kB, in 0.1 ms."""
InThread = Callable[[Callable[[], Content]], Deferred[Content]]


class MetricsPage:
    """The page. ``rules``: the names of those that are on. ``channels``: those that are open.

    ``in_thread`` runs a function in a thread: a page of 250 lines takes 2 ms, the largest there
    can be more than the reactor may wait.
    """

    def __init__(
        self,
        metrics: Metrics,
        now: Now,
        rules: Iterable[str],
        in_thread: InThread,
        channels: Collection[Any] = (),
    ) -> None:
        self._metrics = metrics
        self._standing = Standing(now)
        self._registry = CollectorRegistry()
        self._registry.register(self._standing)
        self._registry.register(metrics.counted)
        self._rules = tuple(rules)
        self._in_thread = in_thread
        self._channels = channels

    def __call__(self, request: ProxyRequest) -> bytes | int:
        """Answer GET and HEAD."""
        if request.method not in (b"GET", b"HEAD"):
            return not_allowed(request, b"GET, HEAD", "this page is only read")
        left: list[Failure] = []
        request.notifyFinish().addErrback(left.append)

        def answer(content: Content) -> None:
            if not left:
                request.write(respond(request, content))
                request.finish()

        def fail(failure: Failure) -> None:
            _log.failure("the metrics page failed", failure)
            if not left:
                request.write(failed(request, 500, "an internal error; the log says more"))
                request.finish()

        accept, encodings = _header(request, b"accept"), _header(request, b"accept-encoding")
        self.refresh(self._channels)
        self._in_thread(lambda: self.content(accept, encodings)).addCallbacks(answer, fail)
        return NOT_DONE_YET

    def refresh(self, channels: Collection[Any] = ()) -> None:
        """Ask the others what is so now, while ``channels`` are open. For the reactor's thread."""
        for rule in self._rules:
            self._metrics.expect(rule)
        self._metrics.counted.refresh()
        self._standing.refresh(channels)

    def content(self, accept: str = "", encodings: str = "") -> Content:
        """Return the page for the values of Accept and Accept-Encoding. For any thread."""
        encode, content_type = _encoder(accept)
        body = encode(self._registry)
        headers: Headers = ((b"Vary", b"Accept, Accept-Encoding"),)
        if gzip_accepted(encodings):
            body = gzip.compress(body, _COMPRESSION, mtime=0)
            headers = (*headers, (b"Content-Encoding", b"gzip"))
        return Content(content_type.encode("latin-1"), body, headers=headers)


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Return the encoder that ``accept`` asks for. prometheus-client repeats versions unchecked."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):
        return generate_latest, PLAIN
    return (encode, content_type) if _SOUND.fullmatch(content_type) else (generate_latest, PLAIN)


def _header(request: ProxyRequest, name: bytes) -> str:
    return b",".join(request.header_values(name)).decode("latin-1")
