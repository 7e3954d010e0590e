"""GET /_cacheproxy/health, and ready: whether a load balancer should send requests here.

A proxy that is stopping refuses new requests of every kind, so these as well.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cacheproxy.core.privacy.access import Access
from cacheproxy.core.rules.code_rule import Normalizer, client_name
from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.servers.profile import for_people
from cacheproxy.plugin.package import Package
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.record.exchange import Exchange
from cacheproxy.web.pages import Answer, Content, Page, answer


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
        told["placement"] = first.adapting and first.adapting.placement()
        told["thinking"] = first.adapting and first.adapting.thinking()
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


def named_or(access: Access, page: Page, other: Page, request: ProxyRequest) -> bytes | int:
    """Answer with ``page``; to who calls us by a name that is not ours, with ``other``."""
    is_named = access.is_named(request.header_values, request.address)
    return answer(request, page if is_named else other)
