"""GET /_cacheproxy/cure/ID|last: rules for what broke a turn, proven on its two requests.

It is worked out in a thread. What goes out are the rules and the figures: of the prompts no more
than what stands around the change on its line, since the user asks for it by this page.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.diagnose.cure import Cure, Found, cures
from cacheproxy.core.rules.fold import GivenUpError
from cacheproxy.core.server.profile import Profile
from cacheproxy.observe.recent import Recent
from cacheproxy.plugin.packages import Configured
from cacheproxy.web.pages import Answer, Content

PATH = b"/_cacheproxy/cure/"
_MOST_OTHERS = 16 << 20
"""Bytes of other requests that a rule is tried on: a tenth of a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cures:
    """The page. ``found``: the rules, all and those that are on.

    ``edits``: whether they are used with this upstream; ``profile`` returns what is known of it.
    ``file``: the config file that a reload reads. ``run`` does work in a thread.
    """

    recent: Recent
    store: Store
    found: Configured
    edits: bool
    file: str
    profile: Callable[[], Profile]
    run: Callable[[Callable[[], tuple[Found, ...]]], Awaitable[tuple[Found, ...]]]

    async def __call__(self, name: str) -> Answer | None:
        """Return the cure for the exchange called ``name``; ``last``: the last that broke."""
        exchange = self._last_broken() if name == "last" else self.recent.find(name)
        if exchange is None:
            return None if name != "last" else _nothing("no turn has broken the cache here so far")
        verdict = exchange.verdict
        if verdict is None or verdict.reason is None:
            return _nothing(f"request {exchange.number} did not break the cache: nothing to cure")
        exchange, pair = self._newest(exchange)
        if pair is None:
            return _nothing(
                f"the texts of request {exchange.number} are no longer in memory: its conversation "
                "was forgotten; look in a capture with --from FILE"
            )
        try:
            found = await self.run(self._work(exchange, pair))
        except GivenUpError as error:
            return _nothing(f"it could not be worked out: it {error}", 503)
        return Cure(exchange.number, self.file, self.edits, found).as_json()

    def _last_broken(self) -> Exchange | None:
        for exchange in reversed(list(self.recent)):
            if self._pair(exchange) is not None:
                return exchange
        return None

    def _newest(self, exchange: Exchange) -> tuple[Exchange, Pair | None]:
        """Return the turn that broke, or the last that did after it in its conversation.

        Where each turn breaks, the next one has come before anybody has read the log.
        """
        place = exchange.place
        for later in reversed(list(self.recent)):
            is_later = later.number >= exchange.number and later.session == exchange.session
            if not is_later or later.place is None or place is None:
                continue
            if later.place.lane == place.lane and (pair := self._pair(later)) is not None:
                return later, pair
        return exchange, None

    def _pair(self, exchange: Exchange) -> Pair | None:
        """Return the requests of a turn that broke, if they are still kept."""
        session, place = exchange.session, exchange.place
        known = None if session is None else self.store.conversation(session)
        lane = None if known is None or place is None else known.lane(place.lane)
        pair = None if lane is None else lane.broken
        return pair if pair is not None and place is not None and pair.turn == place.turn else None

    def _work(self, exchange: Exchange, pair: Pair) -> Callable[[], tuple[Found, ...]]:
        others = self.store.requests(_MOST_OTHERS)
        name = exchange.session.client if exchange.session is not None else ""

        def work() -> tuple[Found, ...]:
            found = cures(
                pair,
                self.found.rules,
                self.found.active,
                self.found.packages.client(name, pair.after),
                others=others,
                order=self.profile().order,
                tokens=exchange.usage.prompt,
            )
            return tuple(found)

        return work


def _nothing(why: str, status: int = 404) -> Content:
    return Content(b"application/json", json.dumps({"error": why}).encode(), status)
