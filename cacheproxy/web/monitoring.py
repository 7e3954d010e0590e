"""Pages for programs: GET /_cacheproxy/health, ready and metrics.

``ready`` says whether a load balancer should send requests here. A stopping proxy refuses all new
requests, these included.

``metrics`` is the page for Prometheus: in the text format, or OpenMetrics if Accept asks for it;
compressed only if Accept-Encoding asks for it. Importing prometheus-client's own Twisted resource
would install the reactor.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from prometheus_client.exposition import choose_encoder, generate_latest, gzip_accepted
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred
from twisted.web.server import Request

from cacheproxy.core.kinds.profile import for_people
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.rules.code_rule import Normalizer, client_name
from cacheproxy.core.rules.fold import Failures
from cacheproxy.metrics import Metrics, Series
from cacheproxy.plugin.package import Package
from cacheproxy.proxy.exchange.pool import Servers
from cacheproxy.record.exchange import Exchange
from cacheproxy.web.pages import Answer, Content, Headers, Page, answer, values

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_IN_TEXT: tuple[Callable[[Collector], bytes], str] = generate_latest, PLAIN
_SOUND = re.compile(r"[A-Za-z0-9/;=., -]+")
InThread = Callable[[Callable[[], Content]], Deferred[Content]]


async def health(
    version: str,
    servers: Servers,
    rules: Sequence[Normalizer],
    failures: Failures,
    recent: Iterable[Exchange],
    *,
    packages: Iterable[Package] = (),
    probe: bytes = b"",
) -> Mapping[str, Any]:
    """Return the health page: the upstream, the active rules, and the failures of each.

    Of several upstreams, ``upstream`` is the first. It is asked now; while it is down, the page has
    nothing on its placement of late system messages and the like. ``recent``: the last exchanges.
    ``packages``: the plugins. ``probe``: value of the header X-Cacheproxy-Probe that keeps a
    request out of all records.
    """
    first = servers.first
    server = await first.profiling.server()
    state: dict[str, Any] = {"url": first.upstream.url.text, "state": "up" if server else "down"}
    told: dict[str, Any] = dict.fromkeys(("placement", "thinking", "profile"))
    if server is not None:
        state["server"] = asdict(server)
        await first.profiling.learn()  # it answers, so its template can be learned
        told |= first.adapting.pages()
        told["profile"] = for_people(first.profiling.profile)
    last = list(recent)
    failed = Counter(str(exchange.status) for exchange in last if exchange.has_failed)
    return {
        "version": version,
        "rules": [rule.name for rule in rules],
        "packages": [
            {
                "name": each.name,
                "version": each.version,
                "loaded": each.error is None,
                "outdated": each.outdated,
            }
            for each in packages
            if not each.blocked
        ],
        "clients": {rule.name: client_name(rule) for rule in rules},
        "upstream": state,
        "upstreams": servers.as_list(),
        **told,
        "probe": probe.decode(),
        "failures": failures.as_dict(),
        "requests": {"last": len(last), "failed": dict(sorted(failed.items()))},
    }


async def ready(is_up: Callable[[], Awaitable[bool]]) -> Answer:
    """Return ``{"ready": true}`` with status 200, or false with 503 while no upstream answers."""
    is_ready = await is_up()
    body = json.dumps({"ready": is_ready}).encode() + b"\n"
    return Content(b"application/json", body, 200 if is_ready else 503)


def named_or(access: Access, page: Page, other: Page, request: Request) -> bytes | int:
    """Answer with ``page``, or with ``other`` if the Host header is none of our names."""
    address = getattr(request.getHost(), "host", "")
    is_named = access.is_named(partial(values, request), address)
    return answer(request, page if is_named else other)


@dataclass(frozen=True, slots=True)
class Families(Collector):
    """The metrics page's families at one moment."""

    standing: Iterable[Metric]  #: gauges of the present state
    counted: Iterable[Series]  #: counters of past exchanges

    def collect(self) -> Iterator[Metric]:
        """Yield each family."""
        yield from self.standing
        for each in self.counted:
            yield each.family()


def metrics_page(
    metrics: Metrics,
    standing: Callable[[], list[Metric]],
    rules: Collection[str],
    in_thread: InThread,
    request: Request,
) -> bytes | int:
    """Answer GET and HEAD with the counters of ``metrics`` and the gauges of ``standing``.

    ``rules``: names of the active rules. ``in_thread`` runs a function in a thread: rendering the
    largest page takes longer than the reactor may be held.
    """

    async def page() -> Content:
        families = Families(standing(), metrics.snapshot(rules))
        accept, encodings = _header(request, b"accept"), _header(request, b"accept-encoding")
        return await in_thread(lambda: content(families, accept, encodings))

    return answer(request, page)


def content(families: Families, accept: str = "", encodings: str = "") -> Content:
    """Return the page for the values of Accept and Accept-Encoding; gzipped if that asks for it."""
    encode, content_type = _IN_TEXT
    with suppress(TypeError, ValueError):  # prometheus-client repeats versions unchecked
        chosen = choose_encoder(accept)
        if _SOUND.fullmatch(chosen[1]):
            encode, content_type = chosen
    body = encode(families)
    headers: Headers = ((b"Vary", b"Accept, Accept-Encoding"),)
    if gzip_accepted(encodings):
        body = gzip.compress(body, 1, mtime=0)  # gzip level: the fastest, which makes 2 kB of 25 kB
        headers = (*headers, (b"Content-Encoding", b"gzip"))
    return Content(content_type.encode("latin-1"), body, headers=headers)


def _header(request: Request, name: bytes) -> str:
    """Return all values of a request's header as one text, joined by commas; "" for none."""
    return b",".join(values(request, name)).decode("latin-1")
