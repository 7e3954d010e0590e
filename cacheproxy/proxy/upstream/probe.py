"""Ask the upstream what it is."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import DNSLookupError
from twisted.python.failure import Failure

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.status import HEALTH
from cacheproxy.proxy.upstream.collect import collect
from cacheproxy.proxy.upstream.failures import explain
from cacheproxy.proxy.upstream.upstream import Upstream

_MOST_BYTES = 4 << 20
DOWN = (421, 502, 503, 504, 508)
"""What a server says, or a gateway before it, while it loads its model or is gone. It is ourselves,
by some other name, that say 421 and 508."""


class ProbeAnswer(NamedTuple):
    """What the upstream answered to a request of our own."""

    status: int  #: of the answer
    body: bytes  #: the whole of it, or "" where it was endless or broken off
    software: str  #: what its header Server says, "" for nothing


async def answer(
    upstream: Upstream, request: Request, clock: Any, seconds: float, *, via: bytes = b""
) -> ProbeAnswer:
    """Send ``request``; return the answer within ``seconds``, or raise what failed."""

    async def whole() -> ProbeAnswer:
        response = await upstream.request(request, via=via)
        head = response.head
        software = b"".join(head.values(b"server")[:1])[:80].decode("latin-1")
        try:
            return ProbeAnswer(head.status, await collect(response, _MOST_BYTES), software)
        except ResponseError:  # endless, or broken off: as good as empty
            return ProbeAnswer(head.status, b"", software)

    deferred = Deferred.fromCoroutine(whole())
    return cast("ProbeAnswer", await deferred.addTimeout(seconds, clock))


async def ask(
    upstream: Upstream, request: Request, clock: Any, seconds: float, *, via: bytes = b""
) -> tuple[int, bytes]:
    """Do the same; return status and body."""
    status, body, _ = await answer(upstream, request, clock, seconds, via=via)
    return status, body


async def is_up(upstream: Upstream, clock: Any, seconds: float) -> bool:
    """Whether it answers within ``seconds``; llama-server says 503 while it loads a model."""
    try:
        status, _ = await ask(upstream, Request("GET", HEALTH), clock, seconds)
    except Exception:  # nobody is there, or it is slow
        return False
    return status not in DOWN


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
