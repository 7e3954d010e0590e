"""The adaptation of requests to one server: by the facts known of it, and by its refusals.

A server has one list of adaptations (``core.adapt``). Each sees the result of the earlier ones.
Their edits are shown like those of rules: one report for each adaptation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from cacheproxy.core.adapt.adaptation import (
    Adaptation,
    Need,
    Refusal,
    Remembered,
    Step,
    guarded,
    made,
)
from cacheproxy.core.adapt.cures import cure
from cacheproxy.core.adapt.refusal import LARGEST, STATUSES, read
from cacheproxy.core.conversation.session import request_label
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.http1.content_coding import CodingError, are_known, codings_of, unpack
from cacheproxy.core.prompt.client import client_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import GivenUpError, RuleReport, describe, kind_of
from cacheproxy.proxy.exchange.adapted import (
    Adapted,
    ListedAdaptation,
    Tried,
    adapt,
    ask_step,
    entry_of,
    made_step,
)
from cacheproxy.proxy.exchange.normalizing import in_thread, seconds_for
from cacheproxy.proxy.exchange.probes import Asked, Probes
from cacheproxy.proxy.exchange.workers import Workers
from cacheproxy.proxy.probing.profiling import Profiling
from cacheproxy.proxy.upstream.body import peek
from cacheproxy.proxy.upstream.connection import UpstreamConnection

_log = Logger()
_SHORT, _AGAIN = 64 << 10, 32 << 10
"""Bytes of a body beyond which a request is adapted in a thread: first, and after a refusal. Only
the adaptation itself knows how much of the body it reads."""
_PEEK_SECONDS = 5.0
"""Seconds for an error's body; one that takes longer is relayed as it comes."""
_MOST_RESENDS = 6
"""Number of times a request is sent again: a server may refuse several of its parts in turn."""


class Adapting:
    """The adaptation of requests to the server of ``profiling``.

    ``adaptations``: the list, in order; ``foreign``: plugins' adaptations, which come after it.
    ``last``: the adaptation that asks for progress reports; its edits are sent but not recorded.
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
            *(entry_of(one, is_foreign=False) for one in adaptations),
            *(entry_of(one, is_foreign=True) for one in foreign),
        )
        self._always = tuple([one for one in self._all if one.learning or one.given is not None])
        self._last = last
        self._probes = Probes(reactor, profiling.beliefs)
        self._logged: set[str] = set()

    # The facts known of the server.

    def pages(self) -> dict[str, dict[str, Any]]:
        """Return the adaptations' facts about the server, as values for a page, by title."""
        return {each.learning.title: each.learning.as_dict() for each in self._all if each.learning}

    def words(self) -> dict[str, str]:
        """Return the facts known of the server and the proxy's reaction to each, a line each."""
        found = {title: page["says"] for title, page in self.pages().items()}
        ours = {each.one.name: each for each in self._all if not each.is_foreign}
        for (name, _), facts in self._server.beliefs.taught.items():
            says = getattr(ours[name].one, "says", None) if name in ours else None
            if says is not None:
                found[name] = says(facts)
        return found

    # Requests.

    async def adapt(self, request: Request, turn: Turn | None, *, begins: bool) -> Adapted:
        """Return ``request`` as this server can take it, by the facts known. It never raises.

        ``begins``: whether ``request`` is a turn, so that its answer's reasoning is remembered.
        """
        adapted = Adapted(request)
        if not request.body:
            return adapted
        taught = self._server.beliefs.taught
        for each in self._all if taught else self._always:
            request = adapted.request
            if each.learning is not None:
                remembered = await each.learning.learn(request, turn, begins=begins)
            elif (remembered := each.given) is None:
                remembered = taught.get((each.one.name, self._server.key(request)))
            if remembered is not None:
                work = partial(adapt, each.of(turn), request, remembered)
                step = await self._call(each, request, turn, work, remembered)
                adapted.take(each.one.name, step)
        return adapted

    async def heal(
        self,
        adapted: Adapted,
        turn: Turn | None,
        response: UpstreamConnection,
        ask: Asked,
        *,
        is_translated: bool = False,
    ) -> Adapted | None:
        """Return the request mended after the refusal ``response``; None if nothing mends it.

        The adaptations are tried in order, until one mends something. ``ask``: sends a probe, by
        which an adaptation may find out what exactly was refused. ``is_translated``: the request
        was translated, so that the path in the error is one of another body.
        """
        refusal = adapted.refusal = await self._refusal(adapted, response)
        if refusal is None or adapted.resends == _MOST_RESENDS:
            return None
        if is_translated:
            refusal = replace(refusal, path=())
        again = Adapted(adapted.received, adapted.resends + 1)
        again.taught |= adapted.taught
        again.budget = adapted.budget
        healed: str | None = None
        failed: list[RuleReport] = []
        for each in [one.of(turn) for one in self._all]:
            name, request = each.one.name, again.request
            need, tried = adapted.needs.get(name), adapted.tried
            found, is_asked = Step(request), healed is None
            if is_asked:
                found = await self._refused(each, request, turn, refusal, adapted, ask=ask)
            if found.need is None and tried is not None and tried[:2] == (name, refusal):
                need = tried.before  # its last attempt did not mend the refusal
                again.taught -= {name} if need is None else set()
            step = Step(request)
            if need is not None:
                step = await self._call(
                    each, request, turn, partial(made_step, each, request, need)
                )
            if is_asked:
                if found.need is not None and found.need != need:
                    make = partial(made_step, each, request, found.need)
                    found = await self._call(each, request, turn, make)
                    if found.request.body != step.request.body:
                        step, healed = found, name
                        again.taught.add(name)
                        again.tried = Tried(name, refusal, need)
                if found is not step and found.report is not None and found.report.error:
                    failed.append(found.report)
            again.take(name, step)
        if healed is None and (cures := cure(refusal.words)) and cures not in self._logged:
            self._logged.add(cures)
            _log.warn(
                "{whose}: the upstream refuses what nothing here can mend: {cure}",
                whose=_label(again.request, turn),
                cure=cures,
            )
        mended = adapted if healed is None else again
        mended.reports += tuple(failed)
        return None if healed is None else again

    def answered(self, adapted: Adapted) -> None:
        """Remember the needs that refusals showed: the server has taken the request with them."""
        for each in self._all:
            need = adapted.needs.get(each.one.name)
            if need is None or each.one.name not in adapted.taught:
                continue
            if each.learning is not None:
                each.learning.remember(adapted.request, need)
            elif need.facts:
                key = self._server.key(adapted.request)
                self._server.beliefs.teach(each.one.name, key, need.facts)

    def finish(self, request: Request) -> tuple[Request, RuleReport | None]:
        """Return the request to be sent instead of ``request``, and a report of its edits.

        The request that is recorded is ``request``.
        """
        last, progress = self._last, self._server.progress
        need = None if last is None or not progress else last.needed(request, {(): progress})
        if last is None or need is None:
            return request, None
        step = made(last.name, request, last.edits(request, need))
        return step.request, step.report

    # One adaptation.

    async def _refusal(self, adapted: Adapted, response: UpstreamConnection) -> Refusal | None:
        """Return the error response as a refusal, None if no adaptation can mend such a one."""
        head = response.head
        if head.status not in STATUSES:
            return None
        if adapted.request.dialect is None or not are_known(codings := codings_of(head.headers)):
            return None
        if head.length is not None and head.length > LARGEST:
            return None
        body = await peek(response, LARGEST, self._reactor, _PEEK_SECONDS)
        try:
            return None if body is None else read(head.status, unpack(body, codings, LARGEST))
        except CodingError:
            return None

    async def _refused(
        self,
        each: ListedAdaptation,
        request: Request,
        turn: Turn | None,
        refusal: Refusal,
        adapted: Adapted,
        *,
        ask: Asked,
    ) -> Step:
        """Return a step with the need of ``request`` after ``refusal``, by one adaptation.

        The facts that it was edited by may be an earlier server's: they are learned again, once.
        """
        name, learning = each.one.name, each.learning
        need = adapted.needs.get(name)
        if each.probes is not None:
            probing, threaded = each.probes(refusal, request, need), len(request.body) > _AGAIN
            finding = self._probes.run(probing, ask, adapted.budget, threaded=threaded)
            found = await self._probed(each, request, turn, finding)
            if found is not None:
                return found
        step = await self._call(
            each, request, turn, partial(ask_step, each, refusal, request, need)
        )
        if step.need is not None and learning is not None and name not in adapted.taught:
            need = await learning.learn_again(request, need)
            again = partial(ask_step, each, refusal, request, need)
            step = await self._call(each, request, turn, again)
        return step

    async def _probed(
        self,
        each: ListedAdaptation,
        request: Request,
        turn: Turn | None,
        finding: Deferred[Need | None],
    ) -> Step | None:
        """Return a step with the need that probes find; None if they took too long."""
        try:
            return Step(request, await finding)
        except CancelledError:
            raise
        except defer.TimeoutError:
            return None
        except Exception as error:  # law 4, or the server is gone
            report = RuleReport(each.one.name, error=describe(error))
            step = Step(request, None, report)
            self._log_step(each, request, turn, step, report)
            return step

    async def _call(
        self,
        each: ListedAdaptation,
        request: Request,
        turn: Turn | None,
        work: Callable[[], Step],
        remembered: Remembered | None = None,
    ) -> Step:
        """Return the result of ``work``, called in a thread if it may block the reactor."""
        work = partial(guarded, each.one.name, request, work)
        if each.is_foreign:
            try:
                step = await self._workers.run(each.one.name, work, seconds_for(request))
            except (GivenUpError, KeyboardInterrupt) as error:  # raised in a thread, not by Ctrl-C
                said = str(error) if isinstance(error, GivenUpError) else kind_of(error)
                step = Step(request, None, RuleReport(each.one.name, error=said) if said else None)
        else:
            if remembered is None:
                is_quick = len(request.body) <= _AGAIN
            elif each.learning is not None:
                is_quick = each.learning.is_quick(request, remembered)
            else:
                is_quick = len(request.body) <= _SHORT
            step = work() if is_quick else await in_thread(self._reactor, _and_read, work)
        if step.report is not None:
            self._log_step(each, request, turn, step, step.report)
        return step

    def _log_step(
        self,
        each: ListedAdaptation,
        request: Request,
        turn: Turn | None,
        step: Step,
        report: RuleReport,
    ) -> None:
        """Log an adaptation that was left out, each time; one that was used, once."""
        name, learning = each.one.name, each.learning
        if report.error is not None:
            self._workers.failures.of(name).failed += 1
            fails = f"adaptation {name} was left out of a request"
            fails = fails if learning is None else learning.fails
            whose = _label(request, turn)
            _log.warn("{whose}: {fails}: {error}", whose=whose, fails=fails, error=report.error)
        elif step.need is not None and each.given is None:
            says = None if each.is_foreign else getattr(each.one, "says", None)
            what = f"upstream refused a request for its shape: {report.edits[0].why}"
            what = what if says is None else says(step.need.facts)
            if what and what not in self._logged:
                self._logged.add(what)
                client = client_of(request) if turn is None else turn.session.client
                whose = "first for {request}" if learning is None else learning.whose
                whose = whose.format(client=client, request=_label(request, turn))
                _log.info("the {what} (logged once; {whose})", what=what, whose=whose)


def _label(request: Request, turn: Turn | None) -> str:
    return request_label(request, turn and turn.session, turn.number if turn else 0)


def _and_read(work: Callable[[], Step]) -> Step:
    step = work()
    _ = step.request.document  # parsed here, since the reactor needs it later
    return step
