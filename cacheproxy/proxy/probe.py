"""Ask the upstream who it is."""

from __future__ import annotations

import json
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone

from cacheproxy.core import template
from cacheproxy.core.prompt import Order
from cacheproxy.core.request import Request
from cacheproxy.core.server import PAGES, Server, identify
from cacheproxy.proxy.connection import UpstreamResponse
from cacheproxy.proxy.upstream import Upstream

_MOST_BYTES = 4 << 20


class _Collect(Protocol):
    """Keeps a whole body, up to a limit; ``done`` fires with it, or with None if it broke off."""

    def __init__(self, response: UpstreamResponse) -> None:
        self.done: Deferred[bytes | None] = Deferred(lambda _: response.connection.abort())
        self._response = response
        self._chunks: list[bytes] = []
        self._size = 0

    def dataReceived(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _MOST_BYTES:
            self._response.connection.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.done.called:
            self.done.callback(b"".join(self._chunks) if reason.check(ResponseDone) else None)


async def ask(
    upstream: Upstream, request: Request, clock: Any, seconds: float
) -> tuple[int, bytes]:
    """Send ``request``; return status and body within ``seconds``, or raise what failed."""

    async def whole() -> tuple[int, bytes]:
        response = await upstream.request(request)
        collect = _Collect(response)
        response.deliverBody(collect)
        return response.code, await collect.done or b""

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


async def template_order(upstream: Upstream, clock: Any, seconds: float = 2.0) -> Order | None:
    """Return what the upstream's chat template prints first, or None if it does not tell."""
    headers = ((b"Content-Type", b"application/json"),)
    request = Request("POST", template.PATH, headers, template.question())
    try:
        status, body = await ask(upstream, request, clock, seconds)
        return template.order_of(json.loads(body)) if status == 200 else None
    except Exception:  # down, slow, or a server without this page
        return None
