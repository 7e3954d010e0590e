"""What every exchange needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.server.prefill import RunningPrefill
from cacheproxy.proxy.exchange.normalizing import Normalizing
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.proxy.exchange.unpacking import Unpacking


@dataclass(frozen=True, slots=True)
class ExchangeContext:
    """What every exchange needs, put together once by tap.

    ``via``: our own token in the Via header, by which a loop is seen. ``probe``: what marks a
    probe, which is nobody's conversation. ``finished``: shows an Exchange to the observers.
    ``keep_bodies``: keep response bodies for them. ``ping_after``: seconds of silence after which
    a streaming client gets a ping, 0 for never. ``progressed`` is told, by the number of an
    exchange, that it runs and how far the server is with its prompt, and None when it is over.
    ``wall`` and ``clock.seconds`` are the time.
    """

    servers: Servers
    clock: Any
    unpacking: Unpacking
    normalizing: Normalizing
    store: Store
    finished: Callable[[Exchange], None]
    wall: Callable[[], float]
    via: bytes
    probe: bytes
    keep_bodies: bool = False
    ping_after: float = 0.0
    progressed: Callable[[int, RunningPrefill | None], None] = lambda _, __: None

    async def prepare(self, came: Request) -> tuple[Request, Prepared]:
        """Return ``came`` with a plain body, and prepared; raises CodingError."""
        if came.header("content-encoding") is None:
            received = await self.unpacking.plain(came)
            return received, await self.normalizing.prepare(received)

        async def work() -> tuple[Request, Prepared]:
            received = await self.unpacking.plain(came)
            return received, await self.normalizing.prepare(received)

        return await self.unpacking.in_turn(work)
