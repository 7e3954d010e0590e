"""GET /_cacheproxy/cure/ID|last: rules for what broke a turn, proven on its two requests.

POST to /_cacheproxy/cure/ID/apply writes them into the config file and reloads it, /undo removes
them again. A thread computes the cure. The answer has the rules and their figures; of the prompts
it quotes only the line around the change, and only to those who may see prompts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.python.failure import Failure
from twisted.web.server import Request

from cacheproxy.configfile import Appended, AppendError, append
from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.diagnose.cure import Cure, Found, cures
from cacheproxy.core.diagnose.texts import Texts, texts_of
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.rules.fold import GivenUpError
from cacheproxy.observe.recent import Recent
from cacheproxy.plugin.packages import Configured
from cacheproxy.record.exchange import Exchange
from cacheproxy.web.pages import Answer, PageError, answer, found
from cacheproxy.web.prompts import Prompts

_T = TypeVar("_T")
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs blocking work in a thread."""
Reload = Callable[[], Awaitable[tuple[str, list[str]]]]
"""Returns the changes and the active rules, or raises ReloadError."""
_MOST_OTHERS = 16 << 20
"""Bytes of other requests on which a rule is tried: they take 0.1 to 0.2 s."""
_MOST_KNOWN = 16
_UNREAD = (
    "{file} is left as it was: the rule would not be in use, since it is switched off where the "
    "proxy was started (disable)."
)


class ReloadError(PageError):
    """A reload failed, and the settings stay as they were (409); the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(why, 409)


def reload(ask: Reload, request: Request) -> bytes | int:
    """Answer POST /_cacheproxy/reload with the changes and the active rules; 409 if it fails.

    It needs no further permission: the settings come from a file that a client cannot write.
    """

    async def page() -> Answer:
        line, rules = await ask()
        return {"said": line, "rules": rules}

    return answer(request, page, post="send POST to reload")


class Applying:
    """Writes cures into the config file and reloads it, one at a time."""

    def __init__(self, reload: Reload, in_thread: Run) -> None:
        self._reload = reload
        self._in_thread = in_thread
        self._done: OrderedDict[str, tuple[Appended, Cure]] = OrderedDict()
        self._lock = DeferredLock()

    def adopt(self, on: Collection[str]) -> None:
        """Forget the cures whose rules the user has removed; ``on``: the active rules."""
        for name in [name for name, (_, cure) in self._done.items() if not _are_in(cure, on)]:
            del self._done[name]

    def is_applied(self, number: int) -> bool:
        """Whether the cure for request ``number`` was applied here, and can be undone."""
        return str(number) in self._done

    async def apply(self, name: str, cure: Cure) -> Answer:
        """Write the rules of ``cure`` for ``name``, reload; undone, PageError (409) if unused."""
        why = "The rule is in use already." if name in self._done else cure.why_not
        if why is not None:
            raise PageError(why, 409)
        done: Appended = await self._write(partial(append, cure.tables, cure.file, cure.off))
        try:
            _, on = await self._reload()
            why = None if _are_in(cure, on) else _UNREAD.format(file=done.file)
        except ReloadError as error:
            why = f"{done.file} was not changed: {error}"
        if why is not None:
            await self._write(done.take_back)
            with suppress(ReloadError):  # the rule was never in force
                await self._reload()
            raise PageError(why, 409)
        for key in (str(cure.number), name):
            self._done[key] = done, cure
        while len(self._done) > 100:  # rules, the last applied, that can be undone
            self._done.popitem(last=False)
        names = ", ".join(cure.names)
        line = f"{done.what} {done.file}. In use now, without a restart: {names}."
        return {"said": line}

    async def undo(self, name: str) -> Answer:
        """Remove the rules applied for request ``name``, and reload; PageError (404) for none."""
        if name not in self._done:
            why = "No rule was applied here for this request since the proxy started."
            raise PageError(why, 404)
        done, cure = self._done[name]
        await self._write(done.undo)
        for key in [key for key, (other, _) in self._done.items() if other is done]:
            del self._done[key]
        line = f"Taken out of {done.file}: {', '.join(cure.names)}. The next request goes without."
        try:
            await self._reload()
        except ReloadError as error:
            line = f"Taken out of {done.file}, but {error}"
        return {"said": line}

    async def _write(self, work: Callable[[], _T]) -> _T:
        """Return the result of ``work`` in a thread; an AppendError becomes PageError (409)."""
        try:
            done: _T = await self._in_thread(work)
        except AppendError as error:
            raise PageError(str(error), 409) from None
        return done

    def alone(self, work: Coroutine[Any, Any, _T]) -> Deferred[_T]:
        """Return the result of ``work``, run after that under way, to its end even if cancelled."""
        waiting: Deferred[_T] = Deferred()

        def tell(result: _T | Failure) -> None:
            if not waiting.called:  # else it was cancelled
                waiting.callback(result)

        self._lock.run(Deferred.fromCoroutine, work).addBoth(tell)
        return waiting


def _are_in(cure: Cure, on: Collection[str]) -> bool:
    return set(cure.names).issubset(on)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cures:
    """The pages of cures."""

    recent: Recent  #: the last exchanges
    store: Store  #: the conversations
    found: Configured  #: all rules, and which of them are active
    edits: bool  #: whether rules apply to this upstream
    file: str  #: the config file that a reload reads
    profile: Callable[[], Profile]  #: returns the upstream's profile
    run: Run  #: runs work in a thread
    applying: Applying  #: writes a rule, and reloads
    prompts: Prompts  #: whether lines of a prompt may be shown
    _known: OrderedDict[int, Cure] = field(default_factory=OrderedDict)
    """Computed cures, by the number of their request."""

    def __call__(self, request: Request, name: str) -> bytes | int:
        """Answer with the cure for the exchange ``name``; ``last``: the last turn that broke."""
        number, _, verb = name.partition("/")

        async def apply() -> Answer:
            cure = await self._cure(number)
            return await self.applying.alone(self.applying.apply(number, cure))

        async def undo() -> Answer:
            return await self.applying.alone(self.applying.undo(number))

        async def show() -> Answer:
            return (await self._cure(name)).as_json()

        if verb == "apply" and number.isdecimal():
            return self.prompts.change(request, apply)
        if verb == "undo" and number.isdecimal():
            return self.prompts.change(request, undo)
        self.prompts.check(request)
        return answer(request, show)

    async def of(self, exchange: Exchange) -> Cure:
        """Return the cure for ``exchange``, or for a later break; PageError if there is none."""
        verdict = exchange.verdict
        if verdict is None or verdict.reason is None:
            why = f"request {exchange.number} did not break the cache: nothing to fix"
            raise PageError(why, 404)
        newest, pair = self._newest(exchange)
        if pair is None:
            raise PageError(
                f"the proxy no longer has the texts of request {exchange.number} in memory; look "
                "in a capture with --from FILE",
                404,
            )
        known = self._known.get(newest.number)
        if known is None:
            try:
                rules = await self.run(self._work(newest, pair))
            except GivenUpError as error:
                why = str(error) or "took too long several times: restart the proxy to try again"
                raise PageError(f"the cure could not be worked out: it {why}", 503) from None
            known = self._known[newest.number] = Cure(newest.number, self.file, self.edits, rules)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return known

    async def texts(self, exchange: Exchange) -> Texts | None:
        """Return the texts where the turn and the one before diverge, None if gone or equal."""
        pair, order = self._pair(exchange), self.profile().order or PromptOrder.TOOLS_FIRST
        if pair is None:
            return None
        try:
            texts: Texts | None = await self.run(lambda: texts_of(pair, order))
        except GivenUpError:
            return None
        return texts

    async def _cure(self, name: str) -> Cure:
        """Return the cure for the exchange ``name``: a number, or ``last``; raises PageError."""
        if name != "last":
            return await self.of(found(self.recent, name))
        for exchange in reversed(list(self.recent)):
            if self._pair(exchange) is not None:
                return await self.of(exchange)
        raise PageError("no turn has broken the cache here so far", 404)

    def _newest(self, exchange: Exchange) -> tuple[Exchange, Pair | None]:
        """Return the conversation's last break from ``exchange`` on, and its pair or None.

        Where every turn breaks, the next one has come before anybody reads the log.
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
        """Return the two requests of a broken turn, None if they are no longer in memory.

        They are copies, so that their parsed JSON, ten times the bodies' size, is freed with them.
        """
        session, place = exchange.session, exchange.place
        known = None if session is None else self.store.conversation(session)
        lane = None if known is None or place is None else known.lane(place.lane)
        pair = None if lane is None else lane.broken
        if pair is None or place is None or pair.turn != place.turn:
            return None
        return pair._replace(before=replace(pair.before), after=replace(pair.after))

    def _work(self, exchange: Exchange, pair: Pair) -> Callable[[], tuple[Found, ...]]:
        """Return a function for a thread that finds rules for ``pair``, tried on other requests."""
        others = self.store.requests(_MOST_OTHERS)
        name = exchange.session.client if exchange.session is not None else ""

        def work() -> tuple[Found, ...]:
            return tuple(
                cures(
                    pair,
                    self.found.rules,
                    self.found.active,
                    self.found.packages.client(name, pair.after),
                    others=[replace(request) for request in others],
                    order=self.profile().order,
                    tokens=exchange.usage.prompt,
                    reused=exchange.usage.reused,
                )
            )

        return work
