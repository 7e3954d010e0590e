"""The core's fold on the reactor, or in a thread where it would take too long there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.normalize import Normalized, Report, normalize
from cacheproxy.core.request import Request
from cacheproxy.core.rules import Normalizer
from cacheproxy.core.session import Session, session_of
from cacheproxy.proxy.memory import SessionMemory

_log = Logger()
_THREAD_ABOVE = 128 << 10
"""Bytes of body beyond which the work goes to a thread. 128 KiB take 0.5 ms as a rule, and 4 ms
where all messages are tiny; 2 MiB take 15 to 60 ms."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request ready to be sent, and whose conversation it is (None: it has no prompt)."""

    request: Request
    reports: tuple[Report, ...] = ()
    session: Session | None = None


class Normalizing:
    """Runs the rules over requests. ``edit`` is False for upstreams that are not local."""

    def __init__(
        self,
        reactor: Any,
        rules: Sequence[Normalizer],
        ask_plugins: Callable[[Request], str | None],
        memory: SessionMemory,
        *,
        edit: bool,
    ) -> None:
        self._reactor = reactor
        self._ask_plugins = ask_plugins
        self._memory = memory
        active = tuple(rules) if edit else ()
        self._plain = tuple(rule for rule in active if not rule.needs_previous)
        self._pins = tuple(rule for rule in active if rule.needs_previous)
        self._told: set[str] = set()

    def prepare(self, request: Request) -> Deferred[Prepared]:
        """Fire with ``request`` normalised and its session; never errbacks for a rule's sake."""
        if not request.body:
            return succeed(Prepared(request))
        if len(request.body) <= _THREAD_ABOVE:
            prepared = succeed(self._prepare(request))
        else:
            prepared = deferToThreadPool(
                self._reactor, self._reactor.getThreadPool(), self._prepare, request
            )
        return prepared.addCallback(self._tell)

    def _prepare(self, request: Request) -> Prepared:
        """Pure but for the memory, which is only read here (a dict look-up, safe in a thread)."""
        plain = normalize(request, self._plain)
        if request.dialect is None:
            return Prepared(plain.request, plain.reports)
        session = session_of(plain.request, self._ask_plugins(plain.request))
        pinned = Normalized(plain.request)
        if self._pins:
            previous = self._memory.recall(session, plain.request).request
            pinned = normalize(plain.request, self._pins, previous)
        _ = pinned.request.document  # read it here: the memory will ask for it on the reactor
        return Prepared(pinned.request, plain.reports + pinned.reports, session)

    def _tell(self, prepared: Prepared) -> Prepared:
        """Log what was left out: a failing rule each time, an odd body once per kind."""
        for report in prepared.reports:
            if report.error is not None:
                _log.warn(
                    "rule {rule} was left out of a request: {error}",
                    rule=report.rule,
                    error=report.error,
                )
        request = prepared.request
        looked_at = request.dialect is not None and "_understood" in request.__dict__
        if looked_at and request.not_understood and request.not_understood not in self._told:
            self._told.add(request.not_understood)
            _log.warn(
                "a request body for {path} goes on as it came: {why} (said once)",
                path=request.path,
                why=request.not_understood,
            )
        return prepared
