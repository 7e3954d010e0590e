"""Ask the upstream who it is."""

from __future__ import annotations

import json
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone

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


async def get(upstream: Upstream, path: str, clock: Any, seconds: float) -> tuple[int, bytes]:
    """GET ``path`` within ``seconds``; return status and body. Raises what the request does."""

    async def whole() -> tuple[int, bytes]:
        response = await upstream.request(Request("GET", path, ((b"Accept", b"*/*"),)))
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
            status, body = await get(upstream, path, clock, seconds)
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
