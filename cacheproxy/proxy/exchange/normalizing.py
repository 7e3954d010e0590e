"""The core's fold on the reactor, or in a thread where it would take too long there.

Code of others never runs on the reactor: each rule and hook of a client package that is a
function gets a thread and a deadline. Past it, the request goes on without that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.privacy.redact import redact_target
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.rules.fold import (
    Normalized,
    Report,
    is_for,
    kind_of,
    may_fire,
    normalize,
    step,
)
from cacheproxy.core.rules.rule import CodeRule, Normalizer, Rule
from cacheproxy.core.rules.session_hook import SessionHook
from cacheproxy.proxy.exchange.memory import SessionMemory
from cacheproxy.proxy.exchange.workers import (
    LeftOutError,
    NoThreadError,
    TookTooLongError,
    Workers,
)

_log = Logger()
_T = TypeVar("_T")
_THREAD_ABOVE = 128 << 10
"""Bytes to be scanned beyond which the work goes to a thread. 128 KiB take 0.5 ms as a rule, and
4 ms where all messages are tiny; 2 MiB take 15 to 60 ms."""
_SECONDS = 1.0
_SECONDS_PER_MIB = 0.25
"""A plugin's deadline. Where all messages are tiny, our own slowest rule takes 0.05 s per MiB of
body and reading the JSON 0.03 s; a machine at work on other things takes several times that."""


class Prepared(NamedTuple):
    """A request ready to be sent, and whose conversation it is (None: it has no prompt).

    ``problems``: what session hooks did wrong, by hook, for the log.
    """

    request: Request
    reports: tuple[Report, ...] = ()
    session: Session | None = None
    problems: tuple[tuple[str, str], ...] = ()


class Normalizing:
    """Runs the rules over requests. ``edit`` is False for upstreams that are not local.

    ``hooks``: asked in turn which session a request belongs to. ``workers``: threads for the code
    of others. ``failures``: where what is left out is counted by name. ``collector`` is paused
    while a large body is read in a thread. ``memo``: what bodies were read as, for requests.
    """

    def __init__(
        self,
        reactor: Any,
        rules: Sequence[Normalizer],
        memory: SessionMemory,
        *,
        edit: bool,
        hooks: Sequence[SessionHook] = (),
        workers: Workers,
        failures: Failures,
        collector: Collector | None = None,
        memo: Memo | None = None,
    ) -> None:
        self._reactor = reactor
        self._hooks = tuple(hooks)
        self._memory = memory
        self._workers = workers
        self._failures = failures
        self._collector = collector or Collector()
        active = tuple(rules) if edit else ()
        self._plain = tuple(rule for rule in active if not rule.needs_previous)
        self._pins = tuple(rule for rule in active if rule.needs_previous)
        self._all_ours = all(map(_is_ours, active)) and all(hook.own for hook in self._hooks)
        self.memo = memo if memo is not None else Memo()
        self._told: set[str] = set()

    def prepare(self, request: Request) -> Deferred[Prepared]:
        """Fire with ``request`` normalised and its session; never errbacks for a rule's sake."""
        if not request.body:
            return succeed(Prepared(request))
        if not self._all_ours:
            prepared = Deferred.fromCoroutine(self._prepare_with_others(request))
        elif _is_small(request):
            return succeed(self._tell(self._prepare(request)))
        else:
            prepared = self._in_thread(self._prepare, request)
        return prepared.addCallback(self._tell)

    def _prepare(self, request: Request) -> Prepared:
        """Pure but for the memory, which is only read here (a dict look-up, safe in a thread)."""
        plain = normalize(request, self._plain)
        if request.dialect is None:
            return Prepared(plain.request, plain.reports)
        problems: list[tuple[str, str]] = []
        answer = None
        for hook in self._hooks:
            if not hook.is_for(plain.request):
                continue
            answer, problem = hook.answer(plain.request)
            if problem is not None:
                problems.append((hook.name, problem))
            if answer is not None:
                break
        session = session_of(plain.request, answer)
        pinned = Normalized(plain.request)
        if self._pins:
            previous = self._memory.recall(session, plain.request).request
            pinned = normalize(plain.request, self._pins, previous)
        _ = pinned.request.document  # read it here: the memory will ask for it on the reactor
        return Prepared(pinned.request, plain.reports + pinned.reports, session, tuple(problems))

    async def _prepare_with_others(self, request: Request) -> Prepared:
        """Do the same, but each function of others in a thread of its own."""
        request, reports = await self._fold(request, self._plain, None)
        if request.dialect is None:
            return Prepared(request, tuple(reports))
        answer, problems = await self._ask(request)
        session = await self._ours(request, session_of, request, answer)
        if self._pins:
            memory = await self._ours(request, self._memory.recall, session, request)
            request, more = await self._fold(request, self._pins, memory.request)
            reports += more
        await self._ours(request, _read, request)
        return Prepared(request, tuple(reports), session, tuple(problems))

    async def _fold(
        self, request: Request, rules: Sequence[Normalizer], previous: Request | None
    ) -> tuple[Request, list[Report]]:
        reports: list[Report] = []
        for is_ours, group in groupby(rules, _is_ours):
            if is_ours:
                done = await self._ours(request, normalize, request, tuple(group), previous)
                request = done.request
                reports += done.reports
                continue
            for rule in group:
                request, report = await self._others(rule, request, previous)
                reports += [report] if report is not None else []
        return request, reports

    async def _ours(self, request: Request, function: Callable[..., _T], *args: Any) -> _T:
        """Call our own code: here for a small request, in a thread for a large one."""
        if _is_small(request):
            return function(*args)
        return await self._in_thread(function, *args)

    async def _others(
        self, rule: Normalizer, request: Request, previous: Request | None
    ) -> tuple[Request, Report | None]:
        """Take ``request`` through a rule of somebody else's, who sees but copies."""
        if _is_small(request) and not (may_fire(rule, request) and is_for(rule, request)):
            return request, None

        def take() -> tuple[Request, Report | None]:
            try:
                return step(request, rule, _copy(previous), shown=_copy(request))
            except KeyboardInterrupt as error:  # the user's would come to the main thread
                return request, Report(rule.name, error=kind_of(error))

        try:
            return await self._workers.run(rule.name, take, _deadline(request))
        except LeftOutError:
            return request, None
        except (TookTooLongError, NoThreadError) as error:
            return request, Report(rule.name, error=str(error))

    async def _ask(self, request: Request) -> tuple[str | None, list[tuple[str, str]]]:
        """Return the first answer to whose conversation it is, and what went wrong before."""
        problems: list[tuple[str, str]] = []
        for hook in self._hooks:
            if not await self._ours(request, hook.is_for, request):
                continue
            if hook.own:
                answer, problem = await self._ours(request, hook.answer, request)
            else:
                answer, problem = await self._ask_other(hook, request)
            if problem is not None:
                problems.append((hook.name, problem))
            if answer is not None:
                return answer, problems
        return None, problems

    async def _ask_other(
        self, hook: SessionHook, request: Request
    ) -> tuple[str | None, str | None]:
        def ask() -> tuple[str | None, str | None]:
            try:
                return hook.answer(replace(request, memo=None))
            except KeyboardInterrupt as error:  # the user's would come to the main thread
                return None, f"raised {kind_of(error)}"

        try:
            return await self._workers.run(hook.name, ask, _deadline(request))
        except LeftOutError:
            return None, None
        except (TookTooLongError, NoThreadError) as error:
            return None, str(error)

    def _in_thread(self, function: Callable[..., _T], *args: Any) -> Deferred[_T]:
        def work() -> _T:
            with self._collector.paused():
                return function(*args)

        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)

    def _tell(self, prepared: Prepared) -> Prepared:
        """Log and count what was left out.

        A failing rule is logged each time, an odd body once per kind.
        """
        for report in prepared.reports:
            if report.error is not None:
                self._failures.of(report.rule).failed += 1
                _log.warn(
                    "rule {rule} was left out of a request: {error}",
                    rule=report.rule,
                    error=report.error,
                )
        for hook, problem in prepared.problems:
            self._failures.of(hook).failed += 1
            _log.warn("plugin {hook} {problem}", hook=hook, problem=problem)
        request = prepared.request
        looked_at = request.dialect is not None and request.is_read
        if looked_at and request.not_understood and request.not_understood not in self._told:
            self._told.add(request.not_understood)
            _log.warn(
                "a request body for {path} goes on as it came: {why} (said once)",
                path=redact_target(request.path),
                why=request.not_understood,
            )
        return prepared


def _is_small(request: Request) -> bool:
    return request.is_quick(_THREAD_ABOVE)


def _is_ours(rule: Normalizer) -> bool:
    """Whether nothing but this project's code runs in the rule: a row in a table, or ours."""
    return type(rule) is Rule or (type(rule) is CodeRule and rule.own)


def _copy(request: Request | None) -> Request | None:
    """Return a request that nobody else looks at, and that is yet unread."""
    return replace(request, memo=None) if request is not None else None


def _deadline(request: Request) -> float:
    return _SECONDS + _SECONDS_PER_MIB * len(request.body) / (1 << 20)


def _read(request: Request) -> None:
    """Read the JSON, which is remembered: on the reactor it will be asked for."""
    _ = request.document
