"""Requests unpacked, and edited by the rules; in a thread if that would block the reactor.

A client package's functions never run on the reactor, unless they are marked as quick: each rule
or hook gets a thread and a deadline. After the deadline, the request goes on without it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.adapt.placing import late_messages
from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.plan import Plan
from cacheproxy.core.conversation.prepare import Prepared, prepare
from cacheproxy.core.conversation.session import request_label
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import was_elsewhere
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.document.search import worked
from cacheproxy.core.http1.content_coding import CodingError, are_known, codings_of, unpack
from cacheproxy.core.privacy.redact import redact_target
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import SLOW_PATTERN, GivenUpError, PluginCall, RuleReport, advance
from cacheproxy.core.rules.note import WHY
from cacheproxy.core.rules.rule import Rule
from cacheproxy.proxy.exchange.workers import Workers

_T = TypeVar("_T")
MakeRoom = Callable[[int], Deferred[None] | None]
_log = Logger()
BOM = b"\xef\xbb\xbf"
THREAD_ABOVE = 128 << 10
"""Bytes to be scanned beyond which the work goes to a thread, so that nothing blocks the reactor
for 5 ms, even if all messages are tiny (benchmarks/README.md)."""
LARGE = 8 << 20
"""Bytes beyond which bodies are read one at a time, like packed ones: each takes four times that in
memory."""
_SLOW = 0.02
"""Seconds of processor time for a slow request: four times the most that the reactor spends."""
_OFTEN, _ONE_IN = 3, 100
"""Slow requests, at least and as one in so many, after which all work goes to threads. Single ones
prove nothing: a virtual machine may stand still at any time."""
_ELSEWHERE, _RIVALS, _UNSEEN = "elsewhere", "rivals", "unseen"
_SECONDS = 1.0
_SECONDS_PER_MIB = 0.25
"""Deadline of a plugin's call. If all messages are tiny, our own slowest rule takes 0.05 s per MiB
of body and parsing the JSON 0.03 s; a machine under load takes several times that."""


def in_thread(reactor: Any, work: Callable[..., _T], *arguments: Any) -> Deferred[_T]:
    """Call ``work`` in a thread of the reactor's pool; fire with its result."""
    return deferToThreadPool(reactor, reactor.getThreadPool(), work, *arguments)


def seconds_for(request: Request) -> float:
    """Return the seconds that a plugin's function may take for ``request``."""
    return _SECONDS + _SECONDS_PER_MIB * len(request.body) / (1 << 20)


class NoRoomError(Exception):
    """There is no memory for an unpacked body now; ``room`` fires as soon as there is."""

    def __init__(self, room: Deferred[None]) -> None:
        super().__init__("too many large bodies are in flight")
        self.room = room


class Unpacking:
    """The unpacker of request bodies. ``limit``: bytes of an unpacked body at most.

    ``edits``: whether requests to any upstream are edited. If none are, a body that cannot be
    unpacked is forwarded as it came.
    """

    def __init__(self, reactor: Any, limit: int, *, edits: bool) -> None:
        self._reactor = reactor
        self._limit = limit
        self._edits = edits
        self._logged = False
        self._turns = DeferredLock()

    async def in_turn(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run ``work`` on one large or packed request at a time; return its result.

        Eight bodies of 57 KB grew to 60 MB each, and took 1.9 GB while all were read at once. A
        request without room (NoRoomError) lets the others pass, and is unpacked again later.
        """
        while True:
            try:
                done: _T = await self._turns.run(lambda: Deferred.fromCoroutine(work()))
            except NoRoomError as error:
                room = error.room
            else:
                return done
            await room

    async def plain(self, request: Request, make_room: MakeRoom) -> Request:
        """Return ``request`` without content codings and byte-order mark (RFC 8259, section 8.1).

        It is returned unchanged if it has neither, or an unknown coding. ``make_room``: see
        ProxyChannel. Raises CodingError, or NoRoomError if too much is in flight.
        """
        if not request.body or request.dialect is None:
            return request
        body, headers = request.body, request.headers
        if b"content-encoding" in request.by_name:
            codings = codings_of(headers)
            if not are_known(codings):
                return request
            if codings:
                # Always in a thread: the unpacked size is not known beforehand.
                try:
                    body = await in_thread(self._reactor, unpack, body, codings, self._limit)
                except CodingError:
                    if self._edits:
                        raise
                    return request
                room = make_room(len(request.body) + len(body))
                if room is not None:
                    raise NoRoomError(room)
                self._log_packed(request)
            headers = tuple([pair for pair in headers if pair[0].lower() != b"content-encoding"])
        elif not body.startswith(BOM):
            return request
        return replace(request, headers=headers, body=body.removeprefix(BOM))

    def _log_packed(self, request: Request) -> None:
        if not self._edits and not self._logged:
            self._logged = True
            _log.info(
                "{client}: a compressed request body (Content-Encoding) was forwarded unchanged, "
                "because the upstream is not local (logged once)",
                client=request_label(request, None),
            )


class Normalizing:
    """The normalisation of requests by the rules of ``plan``.

    ``store``: the conversations. ``workers``: threads for plugins' functions, and the counts of
    failures. ``collector``: the garbage collector, paused while a large body is read in a thread.
    ``memo``: the parsed bodies, shared by requests.
    """

    def __init__(
        self,
        reactor: Any,
        plan: Plan,
        store: Store,
        *,
        workers: Workers,
        collector: Collector | None = None,
        memo: Memo | None = None,
    ) -> None:
        self._reactor = reactor
        self.plan = plan
        owners = [rule.client for rule in plan.rules] + [hook.client for hook in plan.hooks]
        self._clients = frozenset(client for client in owners if client and client.lines)
        self._store = store
        self._workers = workers
        self._collector = collector or Collector()
        self.memo = memo if memo is not None else Memo()
        self._logged: set[str] = set()
        self._noting = {one.name for one in plan.rules if isinstance(one, Rule) and one.note}
        self._ran_here = self._slow_here = 0
        self._is_slow = False

    async def prepare(self, request: Request) -> Prepared:
        """Return ``request`` normalised, with its turn; a failing rule is left out, not raised."""
        if not request.body:
            return Prepared(request)
        work, given, is_slow = prepare(request, self.plan, self._store), None, False
        while True:  # on the reactor if the request is short and slow ones have been rare
            if is_slow or self._is_slow or not request.is_quick(THREAD_ABOVE):
                step = await self._in_thread(work, given)
            else:
                begun = worked()
                step = advance(work, given)
                self._ran_here += 1
                if worked() - begun > _SLOW:
                    self._slow_here += 1
                    self._is_slow = self._slow_here >= max(_OFTEN, self._ran_here // _ONE_IN)
            if not isinstance(step, PluginCall):
                break
            is_slow = step is SLOW_PATTERN
            given = None if is_slow else await self._guarded(step, request)
        self._log_reports(step)
        return step

    async def _guarded(self, call: PluginCall[Any], request: Request) -> Any:
        """Make a ``call`` of a plugin's function; return its result, or a GivenUpError."""
        try:
            return await self._workers.run(call.name, call.function, seconds_for(request))
        except GivenUpError as error:
            return error
        except KeyboardInterrupt:  # raised in a thread, not by Ctrl-C
            return GivenUpError("raised KeyboardInterrupt")

    async def _in_thread(
        self, work: Coroutine[PluginCall[Any], Any, Prepared], given: Any
    ) -> Prepared | PluginCall[Any]:
        def go_on() -> Prepared | PluginCall[Any]:
            with self._collector.paused():
                step = advance(work, given)
                if isinstance(step, Prepared):
                    late_messages(step.request)  # parsed here, since the reactor needs it later
                    _ = step.request.document
                return step

        return await in_thread(self._reactor, go_on)

    def _leave_out(self, slow: RuleReport, whose: str) -> None:
        """Switch off a rule whose pattern took too long on a request; log and count that."""
        self.plan = self.plan.only(*(one for one in self.plan.rules if one.name != slow.rule))
        count = self._workers.failures.of(slow.rule)
        count.failed += 1
        count.timed_out += 1
        if not count.left_out:  # else a request that was under way with the rule was slow, too
            count.left_out = True
            _log.warn(
                "{whose}: rule {rule} is switched off until the next reload: {error}. Fix it "
                '(cacheproxy rules check says more) or disable it: disable = ["{rule}"]',
                whose=whose,
                rule=slow.rule,
                error=slow.error,
            )

    def _is_first(self, what: str) -> bool:
        """Whether ``what`` has not been logged yet; from now on it counts as logged."""
        if what in self._logged:
            return False
        self._logged.add(what)
        return True

    def _log_reports(self, prepared: Prepared) -> None:
        """Log and count the rules that failed, and log what a user should know.

        A failing rule is logged each time; a body that is not understood once per reason; the
        first use of each rule that adds notes once.
        """
        request, turn = prepared.request, prepared.turn
        label = partial(request_label, request, prepared.session)
        for report in prepared.reports:
            if report.is_slow:
                self._leave_out(report, label())
            elif report.error is not None:
                self._workers.failures.of(report.rule).failed += 1
                _log.warn(
                    "rule {rule} was not applied to a request of {whose}: {error}",
                    rule=report.rule,
                    whose=label(),
                    error=report.error,
                )
            elif report.rule in self._noting and any(edit.why == WHY for edit in report.edits):
                self._noting.remove(report.rule)
                _log.info(
                    "{whose}: rule {rule}: the first value stays in the prompt, and the model is "
                    "told the new one behind the user's newest message (logged once; off with: "
                    'disable = ["{rule}"])',
                    whose=label(),
                    rule=report.rule,
                )
        for client in self._clients:
            if client.slow is not None and self._is_first(client.name):
                _log.warn(
                    "client {client} is no longer recognised by lines of its system text, until "
                    "the proxy is restarted: a pattern took longer than {seconds:.3g} s",
                    client=client.name,
                    seconds=client.slow,
                )
        for hook, problem in prepared.problems:
            self._workers.failed(hook, problem, label())
        if request.dialect is not None and request.document is None:
            why = request.not_understood
            if self._is_first(str(why)):
                _log.warn(
                    "{whose}: request body for {path} forwarded unchanged: {why} (logged once)",
                    whose=label(),
                    path=redact_target(request.path),
                    why=why,
                )
        if turn is None:
            return
        source = turn.source
        if source.rivals and self._is_first(_RIVALS):
            _log.warn(
                "{session}: {count} conversations without a session id read alike so far, so "
                "nothing that is kept of one is put into another: pinned values and reasoning "
                "begin anew. A client that sends X-Session-ID is told apart at once (logged once)",
                session=label(),
                count=source.rivals,
            )
        if source.is_unseen and self._is_first(_UNSEEN):
            _log.info(
                "{session}: not all answers in this conversation came through here since the "
                "start, and its client names no session, so its pinned values begin anew. A "
                "client that sends X-Session-ID keeps them (logged once)",
                session=label(),
            )
        if _ELSEWHERE not in self._logged and was_elsewhere(turn):
            self._logged.add(_ELSEWHERE)
            _log.warn(
                "{session}: this proxy has not seen the turn before; another proxy must have "
                "served it. Each change of proxy starts pinned values and verdicts anew. Have "
                "the load balancer keep a conversation at one proxy: docs/running.md has the "
                "configuration (logged once)",
                session=label(),
            )
