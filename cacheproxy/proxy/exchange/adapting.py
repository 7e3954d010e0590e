"""Requests adapted to one server: by what is known of it, and by its refusals.

A server has one list of adaptations (``core.adapt``). Each sees the result of the earlier ones.
What is edited here is shown as the edits of rules are: a report for each adaptation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.adapt.adaptation import (
    Adaptation,
    Edited,
    Learning,
    Need,
    Refusal,
    Remembered,
    make,
    need_of,
)
from cacheproxy.core.adapt.cures import cure
from cacheproxy.core.adapt.refusal import LARGEST, STATUSES, read
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.client import client_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import MOST_EDITS, GivenUpError, RuleReport, describe
from cacheproxy.proxy.exchange.normalizing import seconds_for
from cacheproxy.proxy.exchange.workers import Workers
from cacheproxy.proxy.servers.profiling import Profiling
from cacheproxy.proxy.upstream.connection import UpstreamConnection, peek

_T = TypeVar("_T")
_log = Logger()
_SHORT, _AGAIN = 64 << 10, 32 << 10
"""Bytes of a body beyond which a request is adapted in a thread: first, and after a refusal. How
much is looked at, who edits knows alone."""
_MOST_RESENDS = 6
"""A server may refuse several things of one request, one at a time."""


Asked = Callable[[Request], Awaitable[Refusal | None]]
"""Sends the server a request of our own; returns its refusal, None if it took the request."""
_Probing = Callable[
    [Refusal, Request, Need | None], Generator[Request, Refusal | None, Need | None]
]


class Adapted:
    """One request as one server gets it."""

    __slots__ = (
        "failed",
        "needs",
        "received",
        "refusal",
        "reports",
        "request",
        "resends",
        "taught",
    )

    def __init__(self, received: Request, resends: int = 0) -> None:
        self.received = received  #: before any adaptation
        self.request = received  #: as it goes on
        self.needs: dict[str, Need] = {}  #: by the names of the adaptations
        self.taught: set[str] = set()  #: names of those whose need the server's refusals taught
        self.reports: tuple[RuleReport, ...] = ()  #: what was edited, or failed
        self.failed: tuple[RuleReport, ...] = ()  #: of adaptations that a refusal made fail
        self.resends = resends  #: how often it was sent again
        self.refusal: Refusal | None = None  #: the last one, where it could be read

    def take(
        self, name: str, request: Request, need: Need | None, report: RuleReport | None
    ) -> None:
        """Go on with ``request``, which the adaptation ``name`` has left so."""
        self.request = request
        if need is not None:
            self.needs[name] = need
        if report is not None:
            self.reports += (report,)


class _Entry(NamedTuple):
    """One adaptation of the list."""

    one: Adaptation  #: itself
    learning: Learning | None  #: the same, if it knows of the server by itself
    given: Remembered | None  #: what is remembered from the start
    is_foreign: bool  #: it is a plugin's, which gets a thread, a deadline and its own parsed JSON
    probes: _Probing | None = None  #: finds by requests of our own what was refused
    bound: Callable[[Turn | None], Adaptation] | None = None
    """Returns it for the requests of one turn, which it needs to know."""

    def of(self, turn: Turn | None) -> _Entry:
        """Return it as it is for ``turn``."""
        return self if self.bound is None else self._replace(one=self.bound(turn))


class Adapting:
    """Adapts requests to the server of ``profiling``.

    ``adaptations``: in their order; ``foreign``: those behind them that plugins bring.
    ``last``: done to what is sent alone, behind the translation, where the server reports progress.
    """

    def __init__(
        self,
        reactor: Any,
        profiling: Profiling,
        workers: Workers,
        adaptations: Iterable[Adaptation],
        *,
        foreign: Iterable[Adaptation] = (),
        last: Adaptation | None = None,
    ) -> None:
        self._reactor = reactor
        self._server = profiling
        self._workers = workers
        self._all = (
            *(_entry(one, is_foreign=False) for one in adaptations),
            *(_entry(one, is_foreign=True) for one in foreign),
        )
        self._always = tuple([one for one in self._all if one.learning or one.given is not None])
        self._last = last
        self._told: set[str] = set()

    # What is known.

    def pages(self) -> dict[str, dict[str, Any]]:
        """Return what adaptations know of the server, as plain values for a page."""
        return {each.learning.title: each.learning.as_dict() for each in self._all if each.learning}

    def words(self) -> dict[str, str]:
        """Return what is known of the server, and what is done here for that, in a line each."""
        found = {title: page["says"] for title, page in self.pages().items()}
        for (name, _), facts in self._server.beliefs.taught.items():
            says = next((_says(one.one) for one in self._all if one.one.name == name), None)
            if says is not None:
                found[name] = says(facts)
        return found

    # Requests.

    async def adapt(self, request: Request, turn: Turn | None, *, begins: bool) -> Adapted:
        """Return ``request`` as this server can take it, by what is known. It never fails.

        ``begins``: whether it is a turn, so that its answer is to be remembered.
        """
        adapted = Adapted(request)
        if not request.body:
            return adapted
        taught = self._server.beliefs.taught
        for each in self._all if taught else self._always:
            request = adapted.request
            remembered = each.given
            if each.learning is not None:
                remembered = await each.learning.learn(request, turn, begins=begins)
            elif remembered is None:
                remembered = taught.get((each.one.name, self._server.key(request)))
            if remembered is not None:
                each = each.of(turn)  # noqa: PLW2901
                work = partial(_adapt, each, request, remembered)
                found = await self._call(each, request, work, remembered)
                if found is not None:
                    adapted.take(each.one.name, *found)
                    self._tell(each, request, turn, *found[1:])
        return adapted

    async def heal(
        self, adapted: Adapted, turn: Turn | None, response: UpstreamConnection, ask: Asked
    ) -> Adapted | None:
        """Return the request with what ``response`` refuses mended; None: ``response`` stands.

        Each adaptation is asked in turn, until one mends something. ``ask``: by which it may find
        out what exactly was refused.
        """
        refusal = adapted.refusal = await self._refusal(adapted, response)
        if refusal is None or adapted.resends == _MOST_RESENDS:
            return None
        again = Adapted(adapted.received, adapted.resends + 1)
        again.taught |= adapted.taught
        is_healed = False
        for each in self._all:
            each = each.of(turn)  # noqa: PLW2901
            name, request = each.one.name, again.request
            need = adapted.needs.get(name)
            after, report = request, None
            if need is not None:
                after, report = await self._make(each, request, need)
            found = None
            if not is_healed:
                found = await self._refused(each, refusal, request, adapted, ask)
            if found is not None and found != need:
                other, done = await self._make(each, request, found)
                is_healed = other.body != after.body
                if is_healed:
                    need, after, report = found, other, done
                    again.taught.add(name)
                    self._tell(each, request, turn, need, report)
            again.take(name, after, need, report)
        if not is_healed and (cures := cure(refusal.words)) and cures not in self._told:
            self._told.add(cures)
            _log.warn("the upstream refuses what nothing here can mend: {cure}", cure=cures)
        return again if is_healed else None

    def answered(self, adapted: Adapted) -> None:
        """Remember what refusals taught: the server has taken the request."""
        for each in self._all:
            name = each.one.name
            if name in adapted.taught:
                need = adapted.needs[name]
                if each.learning is not None:
                    each.learning.remember(adapted.received, need)
                elif need.facts:
                    key = self._server.key(adapted.received)
                    self._server.beliefs.teach(name, key, need.facts)

    def finish(self, request: Request) -> tuple[Request, RuleReport | None]:
        """Return what is sent instead of ``request``, which is recorded, and what was edited."""
        last, progress = self._last, self._server.progress
        need = None if last is None or not progress else last.needed(request, {(): progress})
        if last is None or need is None:
            return request, None
        return make(last.name, request, partial(last.edits, request, need))

    # An adaptation, called.

    async def _refusal(self, adapted: Adapted, response: UpstreamConnection) -> Refusal | None:
        """Read the error answer, once for all; None if it is none that can be mended."""
        head = response.head
        if head.status not in STATUSES:
            return None
        if adapted.request.dialect is None or head.values(b"content-encoding"):
            return None
        if head.length is None and not adapted.needs:  # it passes piece by piece
            return None
        if head.length is not None and head.length > LARGEST:
            return None
        body = await peek(response, LARGEST)
        return None if body is None else read(head.status, body)

    async def _refused(
        self, each: _Entry, refusal: Refusal, request: Request, adapted: Adapted, ask: Asked
    ) -> Need | None:
        """Return what one adaptation makes of ``refusal``."""
        name = each.one.name
        need = adapted.needs.get(name)
        found: _Step | None
        if each.probes is not None:
            found = await self._probed(each, each.probes(refusal, request, need), request, ask)
        else:
            work = partial(_refused, each, refusal, request, need)
            found = await self._call(each, request, work)
        if found is not None and found[1] is not None and each.learning is not None:
            if name in adapted.taught:
                return found[1]
            need = await each.learning.learn_again(request, need)
            found = _refused(each, refusal, request, need)
        if found is None:
            return None
        if found[2] is not None:
            adapted.failed += (found[2],)
            self._tell(each, request, None, None, found[2])
        return found[1]

    async def _probed(
        self,
        each: _Entry,
        probing: Generator[Request, Refusal | None, Need | None],
        request: Request,
        ask: Asked,
    ) -> _Step:
        """Return what an adaptation finds by requests of our own."""
        said: Refusal | None = None
        is_quick = len(request.body) <= _AGAIN
        try:
            while True:
                step = partial(_next, probing, said)
                probe, need = step() if is_quick else await in_thread(self._reactor, step)
                if probe is None:
                    return request, need, None
                said = await ask(probe)
        except CancelledError:
            raise
        except Exception as error:  # law 4, or the server is gone
            return request, None, RuleReport(each.one.name, error=describe(error))

    async def _make(
        self, each: _Entry, request: Request, need: Need
    ) -> tuple[Request, RuleReport | None]:
        found = await self._call(each, request, partial(_made, each, request, need))
        return (request, None) if found is None else (found[0], found[2])

    async def _call(
        self,
        each: _Entry,
        request: Request,
        work: Callable[[], _Step],
        remembered: Remembered | None = None,
    ) -> _Step | None:
        """Return what ``work`` comes to, in a thread if it may hold the reactor up; None: nothing.

        A plugin's may hang.
        """
        if each.is_foreign:
            try:
                return await self._workers.run(each.one.name, work, seconds_for(request))
            except (GivenUpError, KeyboardInterrupt) as error:  # from a thread it is not the user's
                self._workers.failed(each.one.name, error)
                return None
        if remembered is None:
            is_quick = len(request.body) <= _AGAIN
        elif each.learning is not None:
            is_quick = each.learning.is_quick(request, remembered)
        else:
            is_quick = len(request.body) <= _SHORT
        return work() if is_quick else await in_thread(self._reactor, _and_read, work)

    def _tell(
        self,
        each: _Entry,
        request: Request,
        turn: Turn | None,
        need: Need | None,
        report: RuleReport | None,
    ) -> None:
        """Log what was left out, each time; what is done for the server, once."""
        name = each.one.name
        if report is None:
            return
        if report.error is not None:
            self._workers.failures.of(name).failed += 1
            fails = f"adaptation {name} was left out of a request"
            fails = fails if each.learning is None else each.learning.fails
            _log.warn("{fails}: {error}", fails=fails, error=report.error)
        elif need is not None and each.given is None:
            client = client_of(request) if turn is None else turn.session.client
            whose = "first for {client}" if each.learning is None else each.learning.whose
            says = _says(each.one)
            what = f"upstream refused a request for its shape: {report.edits[0].why}"
            what = what if says is None else says(need.facts)
            if what and what not in self._told:
                self._told.add(what)
                whose = whose.format(client=client)
                _log.info("the {what} (logged once; {whose})", what=what, whose=whose)


def in_thread(reactor: Any, work: Callable[..., _T], *arguments: Any) -> Deferred[_T]:
    """Call ``work`` in a thread of the ``reactor``'s."""
    return deferToThreadPool(reactor, reactor.getThreadPool(), work, *arguments)


_Step = tuple[Request, Need | None, RuleReport | None]
"""A request after one adaptation, what it needed of that, and what was edited."""


def _entry(one: Adaptation, *, is_foreign: bool) -> _Entry:
    learning: Any = one if hasattr(one, "learn") and not is_foreign else None
    found = (None if is_foreign else getattr(one, name, None) for name in ("probes", "bound"))
    return _Entry(one, learning, getattr(one, "given", None), is_foreign, *found)


def _next(
    probing: Generator[Request, Refusal | None, Need | None], said: Refusal | None
) -> tuple[Request | None, Need | None]:
    """Return the next probe, or what was found by those before."""
    try:
        return probing.send(said), None
    except StopIteration as end:
        return None, end.value


def _says(one: Adaptation) -> Callable[[Remembered], str] | None:
    return getattr(one, "says", None)


def _adapt(each: _Entry, request: Request, remembered: Remembered) -> _Step:
    """Edit ``request`` by what is remembered."""
    shown = _shown(each, request)
    need, failed = need_of(each.one.name, partial(each.one.needed, shown, remembered))
    return (request, None, failed) if need is None else _made(each, request, need)


def _made(each: _Entry, request: Request, need: Need) -> _Step:
    """Edit ``request``; what fails is not needed."""
    one, shown = each.one, _shown(each, request)

    def edits() -> Sequence[Edit] | Edited:
        if each.is_foreign:
            found: Iterable[Any] = one.edits(shown, need)
            return tuple(islice(found, MOST_EDITS + 1))
        return one.edits(shown, need)

    after, report = make(one.name, request, edits, MOST_EDITS if each.is_foreign else None)
    has_failed = report is not None and report.error is not None
    return after, None if has_failed else need, report


def _refused(each: _Entry, refusal: Refusal, request: Request, need: Need | None) -> _Step:
    """Ask what ``request`` needs after ``refusal``."""
    shown = _shown(each, request)
    found, failed = need_of(each.one.name, partial(each.one.refused, refusal, shown, need))
    return request, found, failed


def _shown(each: _Entry, request: Request) -> Request:
    return replace(request, memo=None) if each.is_foreign else request


def _and_read(work: Callable[[], _Step]) -> _Step:
    step = work()
    _ = step[0].document  # read it here: on the reactor it will be asked for
    return step
