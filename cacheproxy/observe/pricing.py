"""Computes the time each turn saved once, when it ends, so that all pages sum the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.conversation.spared import Spared, spared_tokens
from cacheproxy.core.conversation.speeds import Prefill
from cacheproxy.core.route.price import Price
from cacheproxy.core.server.counters import Reading, gain
from cacheproxy.core.server.status import Look

_MOST_UPSTREAMS = 16


class _Upstream:
    """What is known of one: its speeds, its counters, whether answers told a speed since."""

    def __init__(self) -> None:
        self.prefill = Prefill()
        self.reading: Reading | None = None
        self.has_told = False


class Pricing:
    """Takes judged exchanges, gives them on with what they spared.

    Priced at the speed of prefill that the exchange itself shows, if it evaluated enough; else at
    the median of what its upstream showed lately, in answers, or, where these tell no times
    (llama-server's to ``/v1/messages``), in its counters. Prefill slows down as the context grows,
    and what is spared lies deep in it: the seconds are rather too few.

    ``prices``: what upstreams charge, by their names, set anew when the configuration is.
    """

    def __init__(self, deliver: Callable[[Exchange], None]) -> None:
        self.prices: Mapping[str, Price] = {}
        self._deliver = deliver
        self._upstreams: dict[str, _Upstream] = {}

    def __call__(self, exchange: Exchange) -> None:
        """Price ``exchange``, and deliver it."""
        usage = exchange.usage
        known = self._of(exchange.upstream)
        own = known.prefill.learn(usage.evaluated, usage.prompt_seconds)
        known.has_told = known.has_told or own is not None
        tokens = spared_tokens(usage.reused, exchange.verdict)
        if tokens and not exchange.has_failed:
            speed = own or known.prefill.speed
            exchange = replace(exchange, spared=Spared(tokens, tokens / speed if speed else None))
        price = self.prices.get(exchange.server)
        if price is not None and exchange.turn and usage.prompt is not None:
            cost = price.of(usage.prompt, usage.reused or 0, usage.output or 0)
            exchange = replace(exchange, price=cost)
        self._deliver(exchange)

    def speed(self, url: str) -> float | None:
        """Return the tokens a second that ``url`` evaluated lately, None for not known."""
        known = self._upstreams.get(url)
        return None if known is None else known.prefill.speed

    def looked(self, look: Look) -> None:
        """Learn the speed that the upstream's counters tell, unless answers have told it."""
        reading = look.reading
        if reading is None:
            return
        known = self._of(look.url)
        gained = gain(known.reading, reading).figures
        if not known.has_told:
            known.prefill.learn(gained.evaluated, gained.prefill)
        known.reading, known.has_told = reading, False

    def _of(self, url: str) -> _Upstream:
        known = self._upstreams.get(url)
        if known is None:
            if len(self._upstreams) >= _MOST_UPSTREAMS:
                self._upstreams.clear()
            known = self._upstreams[url] = _Upstream()
        return known
