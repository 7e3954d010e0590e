"""Ask the upstream who it is."""

from __future__ import annotations

import json
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import DNSLookupError
from twisted.python.failure import Failure

from cacheproxy.core import template
from cacheproxy.core.http1 import ResponseError
from cacheproxy.core.look import HEALTH
from cacheproxy.core.prompt import Order
from cacheproxy.core.request import Request
from cacheproxy.core.server import PAGES, Server, identify
from cacheproxy.proxy.collect import collect
from cacheproxy.proxy.failures import explain
from cacheproxy.proxy.upstream import Upstream

_MOST_BYTES = 4 << 20


async def ask(
    upstream: Upstream, request: Request, clock: Any, seconds: float, *, via: bytes = b""
) -> tuple[int, bytes]:
    """Send ``request``; return status and body within ``seconds``, or raise what failed."""

    async def whole() -> tuple[int, bytes]:
        response = await upstream.request(request, via=via)
        try:
            return response.code, await collect(response, _MOST_BYTES)
        except ResponseError:  # endless, or broken off: as good as empty
            return response.code, b""

    deferred = Deferred.fromCoroutine(whole())
    return cast("tuple[int, bytes]", await deferred.addTimeout(seconds, clock))


async def probe(upstream: Upstream, clock: Any, seconds: float = 2.0) -> Server | None:
    """Return what the upstream says of itself within ``seconds`` a page; None if it is down."""
    pages: dict[str, Any] = {}
    answered = False
    for path in PAGES:
        try:
            request = Request("GET", path, ((b"Accept", b"*/*"),))
            status, body = await ask(upstream, request, clock, seconds)
        except Exception:
            if not answered:
                return None
            continue
        answered = True
        if status == 200:
            try:
                pages[path] = json.loads(body)
            except (ValueError, RecursionError):
                continue
    return identify(pages)


async def trouble(upstream: Upstream, clock: Any, seconds: float) -> str | None:
    """Return what is wrong with an upstream that is down; None if it just does not listen.

    ``seconds``: to wait for it, more than a connection may take.
    """
    try:
        await ask(upstream, Request("GET", HEALTH), clock, seconds)
    except (ResponseError, DNSLookupError) as error:
        return explain(Failure(error), upstream.url.text)[1]
    except Exception:  # nobody is there, or it is slow
        return None
    return None


async def template_order(upstream: Upstream, clock: Any, seconds: float = 2.0) -> Order | None:
    """Return what the upstream's chat template prints first, or None if it does not tell."""
    headers = ((b"Content-Type", b"application/json"),)
    request = Request("POST", template.PATH, headers, template.question())
    try:
        status, body = await ask(upstream, request, clock, seconds)
        return template.order_of(json.loads(body)) if status == 200 else None
    except Exception:  # down, slow, or a server without this page
        return None
