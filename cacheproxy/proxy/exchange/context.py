"""What every exchange needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.servers.prefill import Progress
from cacheproxy.proxy.exchange.normalizing import Normalizing
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.proxy.exchange.unpacking import Unpacking
from cacheproxy.record.exchange import Exchange


@dataclass(frozen=True, slots=True)
class ExchangeContext:
    """What every exchange needs, put together once by tap."""

    servers: Servers  #: those that may be asked
    clock: Any  #: its ``seconds`` are monotonic
    unpacking: Unpacking  #: unpacks bodies
    normalizing: Normalizing  #: runs the rules
    store: Store  #: of conversations
    finished: Callable[[Exchange], None]  #: shows an Exchange to the observers
    wall: Callable[[], float]  #: returns seconds since the epoch
    via: bytes  #: our own token in the Via header, by which a loop is seen
    probe: bytes  #: what marks a probe, which is nobody's conversation
    keep_bodies: bool = False  #: keep response bodies for the observers
    ping_after: float = 0.0
    """Seconds of silence after which a streaming client gets a ping; 0: never."""
    progressed: Callable[[Exchange, Progress | None, float | None], None] = lambda *_: None
    """Told of an exchange that runs how far the server is with its prompt, if it says, and after
    how many seconds; None: it is over."""
