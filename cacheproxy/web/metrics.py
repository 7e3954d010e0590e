"""GET /_cacheproxy/metrics: the page that Prometheus reads.

In the text format, or OpenMetrics where Accept asks for it; compressed only where Accept-Encoding
asks for it. prometheus-client's own resource for Twisted would choose the reactor by its import.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.exposition import choose_encoder, generate_latest, gzip_accepted
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred

from cacheproxy.metrics.counting import Metrics
from cacheproxy.metrics.series import Series
from cacheproxy.metrics.snapshot import MetricsSources
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.web.pages import Content, Headers, answer

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_SOUND = re.compile(r"[A-Za-z0-9/;=., -]+")
_COMPRESSION = 1
"""The fastest: of 25 kB it leaves 2 kB."""
InThread = Callable[[Callable[[], Content]], Deferred[Content]]


@dataclass(frozen=True, slots=True)
class Families(Collector):
    """What the page says as of one moment."""

    standing: Iterable[Metric]  #: how things are
    counted: Iterable[Series]  #: what has happened

    def collect(self) -> Iterator[Metric]:
        """Yield each family."""
        yield from self.standing
        for each in self.counted:
            yield each.family()


@dataclass(frozen=True, slots=True)
class MetricsResource:
    """The page."""

    metrics: Metrics  #: what has happened
    standing: MetricsSources  #: how things are
    rules: Collection[str]  #: the names of those that are on
    in_thread: InThread
    """Runs a function in a thread: the largest page takes longer than the reactor may wait."""
    channels: Collection[Any] = ()  #: those that are open

    def __call__(self, request: ProxyRequest) -> bytes | int:
        """Answer GET and HEAD."""

        async def page() -> Content:
            families = self.families()
            accept, encodings = _header(request, b"accept"), _header(request, b"accept-encoding")
            return await self.in_thread(lambda: content(families, accept, encodings))

        return answer(request, page)

    def families(self) -> Families:
        """Ask the others what is so now. For the reactor's thread."""
        standing = self.standing.families(self.channels)
        return Families(standing, self.metrics.snapshot(self.rules))


def content(families: Families, accept: str = "", encodings: str = "") -> Content:
    """Return the page for the values of Accept and Accept-Encoding. For any thread."""
    encode, content_type = _encoder(accept)
    body = encode(families)
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
