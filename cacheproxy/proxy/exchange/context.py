"""What every exchange needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.route.stamp import Stamp
from cacheproxy.core.server.prefill import Prefill
from cacheproxy.proxy.exchange.keeping import Keeping
from cacheproxy.proxy.exchange.normalizing import Normalizing
from cacheproxy.proxy.exchange.placing import Placing
from cacheproxy.proxy.translation.translating import Translating
from cacheproxy.proxy.upstream.upstream import Upstream


@dataclass(frozen=True, slots=True)
class ExchangeContext:
    """What every exchange needs, put together once by tap.

    ``via``: our own token in the Via header, by which a loop is seen. ``finished``: shows an
    Exchange to the observers. ``keep_bodies``: keep response bodies for them. ``ping_after``:
    seconds of silence after which a streaming client gets a ping, 0 for never. ``placing``: where
    late system messages go, ``keeping``: what becomes of earlier reasoning; None where nothing is
    edited. ``stamp``: headers that tell routers whose conversation it is; none where nothing is
    edited. ``progressed`` is told, by the number of an exchange, how far the server is with its
    prompt, and None when that is over. ``wall`` and ``clock.seconds`` are the time.
    """

    clock: Any
    upstream: Upstream
    normalizing: Normalizing
    store: Store
    finished: Callable[[Exchange], None]
    wall: Callable[[], float]
    via: bytes
    translating: Translating
    placing: Placing | None = None
    keeping: Keeping | None = None
    stamp: Stamp = field(default_factory=Stamp)
    keep_bodies: bool = False
    ping_after: float = 0.0
    progressed: Callable[[int, Prefill | None], None] = lambda _, __: None
