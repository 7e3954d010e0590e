"""What is asked by programs: GET /_cacheproxy/health, ready and metrics.

Ready: whether a load balancer should send requests here. A proxy that is stopping refuses new
requests of every kind, so these as well.

Metrics is the page that Prometheus reads: in the text format, or OpenMetrics where Accept asks for
it; compressed only where Accept-Encoding asks for it. prometheus-client's own resource for Twisted
would choose the reactor by its import.
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

from cacheproxy.core.privacy.access import Access
from cacheproxy.core.rules.code_rule import Normalizer, client_name
from cacheproxy.core.rules.fold import Failures
from cacheproxy.core.servers.profile import for_people
from cacheproxy.metrics import Metrics, Series
from cacheproxy.plugin.package import Package
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.record.exchange import Exchange
from cacheproxy.web.pages import Answer, Content, Headers, Page, answer, values

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_IN_TEXT: tuple[Callable[[Collector], bytes], str] = generate_latest, PLAIN
_SOUND = re.compile(r"[A-Za-z0-9/;=., -]+")
_COMPRESSION = 1
"""The fastest: of 25 kB it leaves 2 kB."""
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
    """Return the page: the upstream, the rules that are on, and how often each failed.

    Where there are several upstreams, ``upstream`` is the first of them; it is asked, and while it
    is down, nothing is said of where it puts late system messages, and so on. ``recent``: the last
    exchanges. ``packages``: the plugins. ``probe``: what a request has to say in the header
    X-Cacheproxy-Probe to be recorded nowhere.
    """
    first = servers.first
    server = await first.profiling.server()
    state: dict[str, Any] = {"url": first.upstream.url.text, "state": "up" if server else "down"}
    told: dict[str, Any] = dict.fromkeys(("placement", "thinking", "profile"))
    if server is not None:
        state["server"] = asdict(server)
        await first.profiling.learn()  # it answers, so it can tell
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
    """Return the page: 200 or, while no upstream answers, 503. It tells nothing else."""
    is_ready = await is_up()
    body = json.dumps({"ready": is_ready}).encode() + b"\n"
    return Content(b"application/json", body, 200 if is_ready else 503)


def named_or(access: Access, page: Page, other: Page, request: Request) -> bytes | int:
    """Answer with ``page``; to who calls us by a name that is not ours, with ``other``."""
    address = getattr(request.getHost(), "host", "")
    is_named = access.is_named(partial(values, request), address)
    return answer(request, page if is_named else other)


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


def metrics_page(
    metrics: Metrics,
    standing: Callable[[], list[Metric]],
    rules: Collection[str],
    in_thread: InThread,
    request: Request,
) -> bytes | int:
    """Answer GET and HEAD with what ``metrics`` counted, and what ``standing`` returns.

    ``rules``: the names of those that are on. ``in_thread`` runs a function in a thread: the
    largest page takes longer than the reactor may wait.
    """

    async def page() -> Content:
        families = Families(standing(), metrics.snapshot(rules))
        accept, encodings = _header(request, b"accept"), _header(request, b"accept-encoding")
        return await in_thread(lambda: content(families, accept, encodings))

    return answer(request, page)


def content(families: Families, accept: str = "", encodings: str = "") -> Content:
    """Return the page for the values of Accept and Accept-Encoding. For any thread."""
    encode, content_type = _IN_TEXT
    with suppress(TypeError, ValueError):  # prometheus-client repeats versions unchecked
        chosen = choose_encoder(accept)
        if _SOUND.fullmatch(chosen[1]):
            encode, content_type = chosen
    body = encode(families)
    headers: Headers = ((b"Vary", b"Accept, Accept-Encoding"),)
    if gzip_accepted(encodings):
        body = gzip.compress(body, _COMPRESSION, mtime=0)
        headers = (*headers, (b"Content-Encoding", b"gzip"))
    return Content(content_type.encode("latin-1"), body, headers=headers)


def _header(request: Request, name: bytes) -> str:
    return b",".join(values(request, name)).decode("latin-1")
