"""The parts that live as long as the process: observers, totals, captures, and our own pages."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.web.resource import Resource

from cacheproxy.alarm.alarming import Alarming
from cacheproxy.config import Config
from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.kinds.belief import Beliefs
from cacheproxy.core.kinds.status import Look
from cacheproxy.core.privacy.access import HEALTH, READY, Access
from cacheproxy.metrics import Metrics, MetricsSources
from cacheproxy.observe.capture import Capture, CaptureFolder
from cacheproxy.observe.judging import Judging
from cacheproxy.observe.log import LogLine
from cacheproxy.observe.pricing import Pricing
from cacheproxy.observe.recent import Latest, Recent
from cacheproxy.observe.spans import Spans
from cacheproxy.plugin.packages import Configured, Packages
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.holding import Holding
from cacheproxy.proxy.exchange.pool import Servers
from cacheproxy.record.exchange import Exchange
from cacheproxy.totals.lists import TABLES
from cacheproxy.totals.totals import InMemoryTotals, Totals
from cacheproxy.units import version
from cacheproxy.web.cures import Applying, Cures, reload
from cacheproxy.web.dashboard import Dashboard
from cacheproxy.web.exchanges import ExchangePages, exchanges
from cacheproxy.web.files import static_files
from cacheproxy.web.live import Live
from cacheproxy.web.monitoring import health, metrics_page, named_or, ready
from cacheproxy.web.pages import OwnPages, answer, called, login, queried
from cacheproxy.web.prompts import Prompts

_T = TypeVar("_T")
_log = Logger()
_SOON = 0.04
"""Seconds from a finished exchange to its portion: exchanges that end together go together."""
_MANY = 32
"""Exchanges that start a portion at once: more bodies would add up in memory."""
_PAUSE, _FEW, _LONG = 0.002, 8, 0.002
"""Pause between two portions (seconds); exchanges in a portion, more where over four times as many
wait; and seconds that one portion may spend on verdicts."""
_CURE, _CURE_SECONDS = "cure", 30.0
"""Name and time limit (seconds) of the thread call in which a rule is proven."""


class ProcessParts(Service):
    """The process's parts, which judge and price each exchange given to ``take``.

    ``judging`` delivers to ``pricing``, and that to the observers of ``plugins``; when the service
    stops, none is lost. ``capture`` and ``totals`` are None where the user keeps none. ``store``
    has the conversations, ``memo`` the parsed bodies. ``collector`` runs the garbage collector.
    ``via`` is our own token in the Via header. ``holding`` has the upstream requests whose client
    has left, ``beliefs`` those about upstreams, by their URLs.

    Raises ConfigError and PluginError.
    """

    def __init__(self, reactor: Any, config: Config) -> None:
        self.reactor = reactor
        self.via = b"cacheproxy-" + os.urandom(4).hex().encode()
        self.store, self.memo, self.collector = Store(), Memo(), Collector()
        self.beliefs: dict[str, Beliefs] = {}
        self.plugins = plugins = Plugins(reactor)
        plugins.adopt(Packages().load(config.block, config.plugin))
        self.site = ProxySite(Resource(), reactor, Limits(), Access())
        self.capture: Capture | None = None
        if config.capture:
            self.capture = Capture(reactor, CaptureFolder(Path(config.capture).expanduser()))
        self.totals = _totals(reactor, config)
        self.log_line = LogLine(verbose=config.verbose)
        self.pricing = Pricing(plugins.finished)
        self.judging = Judging(reactor, self.pricing, self.store, self.collector)
        self.take = DeferredObserver(reactor, self.judging.judge, self.judging.give_on)
        self.alarming = Alarming(reactor, plugins.workers, config.alarm)
        self.shown = Pages(self)
        self.holding = Holding(reactor, self.shown.latest)
        ours = {
            "log-line": self.log_line,
            "loss-alarm": self.alarming,  # by their names, so after the log's line
            "capture": self.capture,
            "totals": self.totals,
        }
        for name, plugin in ours.items():
            if plugin is not None:
                plugins.register(plugin, name)
        if config.otel:
            spans = Spans(version())
            plugins.register(spans, "spans")
            # All records are in by then.
            reactor.addSystemEventTrigger("after", "shutdown", spans.stop)

    def startService(self) -> None:
        """Be ready for exchanges."""
        super().startService()
        self.judging.start()

    def stopService(self) -> Deferred[None]:
        """Stop; the Deferred fires when the observers have seen and written all exchanges."""
        super().stopService()
        return Deferred.fromCoroutine(self._finish())

    def looked(self, look: Look) -> None:
        """Record a look at the upstream's status pages."""
        looks = self.shown.latest.looks
        before, looks[look.url] = looks.get(look.url), look
        if before is None or before.state is not look.state:
            self.shown.live.looked()
        self.pricing.looked(look)
        if self.totals is not None:
            self.totals.looked(look)
        self.judging.looked(look)

    def in_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        """Run the blocking ``work`` in a thread of the reactor's pool."""
        return deferToThreadPool(self.reactor, self.reactor.getThreadPool(), work)

    async def _finish(self) -> None:
        """Finish in order: verdicts first, since what they deliver goes to the other observers."""
        self.take.settle()
        await self.in_thread(self.judging.stop)
        self.judging.settle()
        await gatherResults([self.plugins.finish(), self.alarming.finish()])
        for kept in (self.capture, self.totals):
            if kept is not None:
                await self.in_thread(kept.close)


def _totals(reactor: Any, config: Config) -> Totals | None:
    if config.state_dir == "none":
        return None
    folder = Path(config.state_dir).expanduser()
    if config.state_dir == "user":
        folder = platformdirs.user_state_path("cacheproxy")
    totals = Totals(reactor, folder, time.time)
    totals.check()
    return totals


class Pages:
    """The observers that our own pages show; ``pages`` makes the pages of one configuration.

    Where no totals are kept, the dashboard shows the last exchanges. ``file``: the config file that
    a reload reads. ``reload``: does that; the service sets it. ``option``: with which commands find
    this proxy. ``probe``: the secret that marks doctor's probes. ``collector`` pauses while a rule
    is proven in a plugin thread, since a collection could run functions of that plugin.
    """

    reload: Callable[[], Awaitable[tuple[str, list[str]]]]

    def __init__(self, process: ProcessParts) -> None:
        self.file = self.option = ""
        self.probe = os.urandom(16).hex().encode()
        self.recent = Recent()
        self.metrics = Metrics()
        self.latest = Latest()
        plugins = process.plugins
        self._version = version()
        source = InMemoryTotals(time.time) if process.totals is None else process.totals
        self.dashboard = Dashboard(source, self.recent, self.latest, self._version)
        self.prompts = Prompts()
        self.applying = Applying(lambda: self.reload(), process.in_thread)  # noqa: PLW0108 (set later)
        self.dashboard.is_applied = self.applying.is_applied
        self.live = Live(self.dashboard, process.reactor)
        self._process = process
        plugins.register(self.recent, "recent")
        plugins.register(self.metrics, "metrics")
        plugins.register(self.live, "live")
        if process.totals is None:
            plugins.register(source, "unkept")

    def pages(
        self, servers: Servers, found: Configured, access: Access, *, edits: bool
    ) -> OwnPages:
        """Return the pages of one configuration; waiting exchanges are judged before each page.

        ``edits``: whether the rules of ``found`` apply to at least one upstream.
        """
        process = self._process
        rules, failures = found.on if edits else (), process.plugins.failures
        page = partial(
            health,
            self._version,
            servers,
            rules,
            failures,
            self.recent,
            packages=found.packages,
            probe=self.probe,
        )
        check = partial(ready, servers.is_up)
        standing = MetricsSources(
            self._version,
            failures,
            process.reactor.seconds,
            lambda: list(self.latest.looks.values()),
            servers.warmed,
        )
        metrics = partial(
            metrics_page,
            self.metrics,
            partial(standing.families, process.site.channels),
            [rule.name for rule in rules],
            process.in_thread,
        )
        board = self.dashboard
        cures = Cures(
            recent=self.recent,
            store=process.store,
            found=found,
            edits=edits,
            file=self.file,
            profile=lambda: servers.first.profiling.profile,
            run=self._prove,
            applying=self.applying,
            prompts=self.prompts,
        )
        one = ExchangePages(cures=cures, report=board.report, option=lambda: self.option)
        return OwnPages(
            {
                **static_files(),
                **{
                    b"/_cacheproxy/%s.csv" % name.encode(): partial(
                        queried, partial(board.table, name)
                    )
                    for name in TABLES
                },
                b"/_cacheproxy/data": partial(queried, board.data),
                b"/_cacheproxy/requests": partial(queried, board.requests),
                b"/_cacheproxy/conversations": partial(queried, board.conversations),
                READY: lambda request: answer(request, check),
                b"/_cacheproxy/exchanges": lambda request: answer(
                    request, partial(exchanges, self.recent)
                ),
                b"/_cacheproxy/metrics": metrics,
                b"/_cacheproxy/live": self.live,
                HEALTH: partial(named_or, access, page, check),
                b"/_cacheproxy/login": partial(login, access),
                b"/_cacheproxy/reload": lambda request: reload(self.reload, request),
                b"/_cacheproxy/show-prompts": self.prompts.page,
            },
            {
                b"/_cacheproxy/detail/": partial(called, one.detail),
                b"/_cacheproxy/conversations/": partial(called, board.conversation),
                b"/_cacheproxy/cure/": cures,
                b"/_cacheproxy/break/": partial(called, one.broken),
                b"/_cacheproxy/diagnose/": partial(called, one.diagnosis),
            },
            process.take.settle,
            process.reactor,
        )

    def _prove(self, work: Callable[[], _T]) -> Awaitable[_T]:
        """Run ``work``, which may call functions of plugins; raises GivenUpError."""

        def paused() -> _T:
            with self._process.collector.paused():
                return work()

        return self._process.plugins.workers.run(_CURE, paused, _CURE_SECONDS)


@dataclass(eq=False)
class DeferredObserver:
    """Collects finished exchanges, and has them judged and delivered in portions.

    All runs on the reactor's thread. An agent sends its next request as soon as it has an answer,
    and judging, counting and logging the last exchange at that moment would delay it. So exchanges
    gather for up to 50 ms and are then handled together.
    """

    clock: IReactorTime  #: times the portions
    reach: Callable[[Exchange], object]  #: reaches the verdict on one exchange
    give_on: Callable[[int], bool]
    """Delivers at most that many judged exchanges; returns whether more are left."""
    _waiting: deque[Exchange] = field(default_factory=deque)  #: exchanges without a verdict
    _gathered: int = 0  #: exchanges since the last portion
    _timer: IDelayedCall | None = None  #: starts the next portion

    def __call__(self, exchange: Exchange) -> None:
        """Put ``exchange`` into the next portion."""
        self._waiting.append(exchange)
        self._gathered += 1
        if self._timer is None:
            self._timer = self.clock.callLater(_SOON, self._some)
        elif self._gathered == _MANY:
            self._timer.reset(0)

    def judge(self, most: int = _MANY, seconds: float = _LONG) -> None:
        """Judge waiting exchanges now: the request that has come may be the next turn of one.

        ``most``: exchanges; ``seconds``: after which no further one is begun.
        """
        waiting = self._waiting
        until = self.clock.seconds() + seconds if waiting else 0.0
        for _ in range(min(most, len(waiting))):
            try:
                self.reach(one := waiting.popleft())
            except Exception:  # that loses one record, but must not fail the new request
                _log.failure("{whose}: an exchange could not be judged", whose=one.label)
            if self.clock.seconds() > until:
                break

    def settle(self) -> None:
        """Handle all waiting exchanges now: a page is being asked for."""
        self.judge(len(self._waiting), math.inf)
        self.give_on(sys.maxsize)

    def _some(self) -> None:
        self._timer = None
        most = max(_FEW, self._gathered // 4)
        self._gathered = 0
        self.judge(most)
        if not (self.give_on(most) or self._waiting):
            return
        if self._timer is None:
            self._timer = self.clock.callLater(_PAUSE, self._some)
        else:  # set for one that has been put meanwhile
            self._timer.reset(_PAUSE)
