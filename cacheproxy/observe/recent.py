"""The last exchanges, kept in memory for those who ask."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from cacheproxy import hookimpl
from cacheproxy.core.exchange import Exchange

_MOST = 200


class Recent:
    """The observer that remembers; without the bodies, which would be the prompts themselves.

    What a verdict quotes of a break (a few words on both sides) is kept with it, so that it can
    be shown to a user who asks.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._kept: deque[Exchange] = deque(maxlen=most)

    @hookimpl
    def cacheproxy_exchange_finished(self, exchange: Exchange) -> None:
        """Remember the exchange without its bodies and headers."""
        bare = replace(exchange.received, body=b"", headers=())
        sent = None if exchange.sent is None else bare
        self._kept.append(
            replace(exchange, received=bare, sent=sent, response_headers=(), response_body=None)
        )

    def __iter__(self) -> Iterator[Exchange]:
        """Yield what is kept, the oldest first."""
        return iter(self._kept)

    def find(self, name: str) -> Exchange | None:
        """Return the exchange with the number ``name``, or the latest turn for ``last``."""
        for exchange in reversed(self._kept):
            if exchange.turn if name == "last" else str(exchange.number) == name:
                return exchange
        return None
