"""The core's fold on the reactor, or in a thread where it would take too long there.

A client package's functions never run on the reactor, unless they are marked as quick: each rule
or hook gets a thread and a deadline. After the deadline, the request goes on without it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.elsewhere import was_elsewhere
from cacheproxy.core.conversation.prepare import Prepared, prepare
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.privacy.redact import redact_target
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.rules.fold import Foreign, GivenUpError, advance
from cacheproxy.core.rules.normalizer import Normalizer
from cacheproxy.core.rules.note import WHY
from cacheproxy.core.rules.session_hook import SessionHook
from cacheproxy.proxy.exchange.workers import Workers

_log = Logger()
_THREAD_ABOVE = 128 << 10
"""Bytes to be scanned beyond which the work goes to a thread, so that nothing holds the reactor for
5 ms, even where all messages are tiny (benchmarks/README.md)."""
_ELSEWHERE = "elsewhere"
_SECONDS = 1.0
_SECONDS_PER_MIB = 0.25
"""A plugin's deadline. Where all messages are tiny, our own slowest rule takes 0.05 s per MiB of
body and reading the JSON 0.03 s; a machine at work on other things takes several times that."""


class Normalizing:
    """Runs the rules over requests. ``edit`` is False for upstreams that are not local.

    ``store``: where a request's conversation is looked for. ``hooks``: asked in turn which session
    a request belongs to. ``workers``: threads for the code of others. ``failures``: where what is
    left out is counted by name. ``collector`` is paused while a large body is read in a thread.
    ``memo``: what bodies were read as, for requests.
    """

    def __init__(
        self,
        reactor: Any,
        rules: Sequence[Normalizer],
        store: Store,
        *,
        edit: bool,
        hooks: Sequence[SessionHook] = (),
        workers: Workers,
        failures: Failures,
        collector: Collector | None = None,
        memo: Memo | None = None,
    ) -> None:
        self._reactor = reactor
        self._rules = tuple(rules) if edit else ()
        self._hooks = tuple(hooks)
        self._store = store
        self._workers = workers
        self._failures = failures
        self._collector = collector or Collector()
        self.memo = memo if memo is not None else Memo()
        self._told: set[str] = set()

    async def prepare(self, request: Request) -> Prepared:
        """Return ``request`` normalised, and where it belongs; never raises for a rule's sake."""
        if not request.body:
            return Prepared(request)
        work = prepare(request, self._rules, self._hooks, self._store)
        if request.is_quick(_THREAD_ABOVE):
            step = advance(work)
        else:
            step = await self._in_thread(work, None)
        while isinstance(step, Foreign):
            given = await self._guarded(step, request)
            if request.is_quick(_THREAD_ABOVE):
                step = advance(work, given)
            else:
                step = await self._in_thread(work, given)
        self._tell(step)
        return step

    async def _guarded(self, call: Foreign[Any], request: Request) -> Any:
        """Make a call of others' code; return what it gave, or a GivenUpError."""

        def make() -> Any:
            try:
                return call.function()
            except KeyboardInterrupt:  # the user's would come to the main thread
                return GivenUpError("raised KeyboardInterrupt")

        seconds = _SECONDS + _SECONDS_PER_MIB * len(request.body) / (1 << 20)
        try:
            return await self._workers.run(call.name, make, seconds)
        except GivenUpError as error:
            return error

    async def _in_thread(
        self, work: Coroutine[Foreign[Any], Any, Prepared], given: Any
    ) -> Prepared | Foreign[Any]:
        def go_on() -> Prepared | Foreign[Any]:
            with self._collector.paused():
                step = advance(work, given)
                if isinstance(step, Prepared):
                    _ = step.request.document  # read it here: on the reactor it will be asked for
                return step

        return await deferToThreadPool(self._reactor, self._reactor.getThreadPool(), go_on)

    def _tell(self, prepared: Prepared) -> None:
        """Log and count what was left out.

        A failing rule is logged each time, an odd body once per kind, and that a rule tells the
        model something once.
        """
        for report in prepared.reports:
            if report.error is not None:
                self._failures.of(report.rule).failed += 1
                _log.warn(
                    "rule {rule} was left out of a request: {error}",
                    rule=report.rule,
                    error=report.error,
                )
            elif report.rule not in self._told and any(edit.why == WHY for edit in report.edits):
                self._told.add(report.rule)
                _log.info(
                    "rule {rule}: the first value stays in the prompt, and the model is told the "
                    "new one behind the user's newest message (logged once; off with: disable = "
                    '["{rule}"])',
                    rule=report.rule,
                )
        for hook, problem in prepared.problems:
            self._failures.of(hook).failed += 1
            _log.warn("plugin {hook} {problem}", hook=hook, problem=problem)
        turn = prepared.turn
        if turn is not None and _ELSEWHERE not in self._told and was_elsewhere(turn):
            self._told.add(_ELSEWHERE)
            _log.warn(
                "{session}: another proxy must have served the turn before, which this one has "
                "not seen: pinned values and verdicts begin anew with each change of proxy. Let "
                "the balancer keep a conversation at one proxy: docs/running.md has the "
                "configuration (logged once)",
                session=turn.session.label,
            )
        request = prepared.request
        looked_at = request.dialect is not None and request.is_read
        if looked_at and request.not_understood and request.not_understood not in self._told:
            self._told.add(request.not_understood)
            _log.warn(
                "request body for {path} forwarded unchanged: {why} (logged once)",
                path=redact_target(request.path),
                why=request.not_understood,
            )
