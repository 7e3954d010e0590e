"""GET /_cacheproxy/cure/ID|last: rules for what broke a turn, proven on its two requests.

POST to /_cacheproxy/cure/ID/apply writes them into the config file and has it read, /undo takes
them out again. It is worked out in a thread. What goes out are the rules and the figures: of the
prompts no more than what stands around the change on its line, since the user asks for it by this
page; to those who may see prompts only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.diagnose.cure import Cure, Found, cures
from cacheproxy.core.diagnose.texts import Texts, texts_of
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.rules.fold import GivenUpError
from cacheproxy.core.servers.profile import Profile
from cacheproxy.observe.recent import Recent
from cacheproxy.plugin.packages import Configured
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.record.exchange import Exchange
from cacheproxy.web.applying import Applying
from cacheproxy.web.pages import Answer, answer, failed, said
from cacheproxy.web.prompts import Prompts

_MOST_OTHERS = 16 << 20
"""Bytes of other requests that a rule is tried on: a tenth of a second or two."""
_MOST_KNOWN = 16
_TOO_OFTEN = "took too long several times: restart the proxy to try again"


class NoCureError(Exception):
    """Nothing can be worked out; the message says why, ``status``: of the answer."""

    def __init__(self, why: str, status: int = 404) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Cures:
    """The pages of rules for what broke."""

    recent: Recent  #: the last exchanges
    store: Store  #: of conversations
    found: Configured  #: the rules, all and those that are on
    edits: bool  #: whether they are used with this upstream
    file: str  #: the config file that a reload reads
    profile: Callable[[], Profile]  #: returns what is known of the upstream
    run: Callable[[Callable[[], Any]], Awaitable[Any]]  #: does work in a thread
    applying: Applying  #: writes a rule, and reloads
    prompts: Prompts  #: whether lines of a prompt may be shown
    _known: OrderedDict[int, Cure] = field(default_factory=OrderedDict)
    """Cures by the numbers of the requests that they were worked out on."""

    def __call__(self, request: ProxyRequest, name: str) -> bytes | int:
        """Answer with the cure for the exchange called ``name``; ``last``: the last that broke."""
        number, _, verb = name.partition("/")
        if verb == "apply" and number.isdecimal():
            apply = partial(self.applying.apply, number)
            return self.prompts.change(request, lambda: self._with_cure(number, apply))
        if verb == "undo" and number.isdecimal():
            return self.prompts.change(request, lambda: self.applying.undo(number))

        why = self.prompts.why_not(request)
        if why is not None:
            return failed(request, 403, why)

        async def show(cure: Cure) -> Answer:
            return cure.as_json()

        return answer(request, lambda: self._with_cure(name, show))

    async def of(self, exchange: Exchange) -> Cure:
        """Return the cure for ``exchange``, or for a later turn that broke; raises NoCureError."""
        verdict = exchange.verdict
        if verdict is None or verdict.reason is None:
            raise NoCureError(f"request {exchange.number} did not break the cache: nothing to fix")
        newest, pair = self._newest(exchange)
        if pair is None:
            raise NoCureError(
                f"the proxy no longer has the texts of request {exchange.number} in memory; look "
                "in a capture with --from FILE"
            )
        known = self._known.get(newest.number)
        if known is None:
            try:
                found = await self.run(self._work(newest, pair))
            except GivenUpError as error:
                why = str(error) or _TOO_OFTEN
                raise NoCureError(f"the cure could not be worked out: it {why}", 503) from None
            known = self._known[newest.number] = Cure(newest.number, self.file, self.edits, found)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return known

    async def texts(self, exchange: Exchange) -> Texts | None:
        """Return what the prompts of ``exchange`` and the turn before say where they part.

        None if they are no longer in memory, or do not differ.
        """
        pair, order = self._pair(exchange), self.profile().order or PromptOrder.TOOLS_FIRST
        if pair is None:
            return None
        try:
            found: Texts | None = await self.run(lambda: texts_of(pair, order))
        except GivenUpError:
            return None
        return found

    async def _with_cure(
        self, name: str, use: Callable[[Cure], Awaitable[Answer]]
    ) -> Answer | None:
        """Return what ``use`` makes of the cure for the exchange called ``name``."""
        last = (one for one in reversed(list(self.recent)) if self._pair(one) is not None)
        exchange = next(last, None) if name == "last" else self.recent.find(name)
        if exchange is None:
            why = "no turn has broken the cache here so far"
            return said(why, 404) if name == "last" else None
        try:
            return await use(await self.of(exchange))
        except NoCureError as error:
            return said(str(error), error.status)

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
        """Return the requests of a turn that broke, if they are still kept.

        What is read of these goes with them: it takes ten times the room of the bodies.
        """
        session, place = exchange.session, exchange.place
        known = None if session is None else self.store.conversation(session)
        lane = None if known is None or place is None else known.lane(place.lane)
        pair = None if lane is None else lane.broken
        if pair is None or place is None or pair.turn != place.turn:
            return None
        return pair._replace(before=replace(pair.before), after=replace(pair.after))

    def _work(self, exchange: Exchange, pair: Pair) -> Callable[[], tuple[Found, ...]]:
        others = self.store.requests(_MOST_OTHERS)
        name = exchange.session.client if exchange.session is not None else ""

        def work() -> tuple[Found, ...]:
            found = cures(
                pair,
                self.found.rules,
                self.found.active,
                self.found.packages.client(name, pair.after),
                others=[replace(request) for request in others],
                order=self.profile().order,
                tokens=exchange.usage.prompt,
                reused=exchange.usage.reused,
            )
            return tuple(found)

        return work
