"""What lives as long as the process: what it has seen, and what our own pages show of it."""

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
from cacheproxy.core.privacy.access import HEALTH, READY, Access
from cacheproxy.core.servers.belief import Beliefs
from cacheproxy.core.servers.status import Look
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
from cacheproxy.proxy.exchange.servers import Servers
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
from cacheproxy.web.pages import OwnPages, Prompts, answer, called, login, queried

_T = TypeVar("_T")
_log = Logger()
_SOON = 0.04
"""Seconds before the first: what has finished is seen together."""
_MANY = 32
"""Exchanges that do not wait so long: their bodies would add up."""
_PAUSE, _FEW, _LONG = 0.002, 8, 0.002
"""Seconds between portions; exchanges in one, more if more than four times as many came; and
seconds for which verdicts are reached in one."""
_CURE, _CURE_SECONDS = "cure", 30.0
"""A rule is proven in a thread of plugins: for how long."""


class ProcessParts(Service):
    """Judges and prices what ``take`` is given; nothing is lost when it stops.

    ``judging`` delivers to ``pricing``, which delivers to the observers of ``plugins``. ``capture``
    and ``totals``: None where nothing is kept of the kind. ``store``: of conversations; ``memo``:
    what bodies were read as; ``collector``: of garbage; ``via``: our own token in the Via header.
    ``holding``: upstream requests whose client has left. ``beliefs``: of upstreams, by their URLs.

    Raises ConfigError, PluginError.
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
        """Fire when all that waits has been seen, and written."""
        super().stopService()
        return Deferred.fromCoroutine(self._finish())

    def looked(self, look: Look) -> None:
        """Take note of a look at the upstream."""
        looks = self.shown.latest.looks
        before, looks[look.url] = looks.get(look.url), look
        if before is None or before.state is not look.state:
            self.shown.live.looked()
        self.pricing.looked(look)
        if self.totals is not None:
            self.totals.looked(look)
        self.judging.looked(look)

    def in_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        """Do ``work`` that blocks in a thread of the reactor's."""
        return deferToThreadPool(self.reactor, self.reactor.getThreadPool(), work)

    async def _finish(self) -> None:
        """Verdicts first: what they deliver, here on the reactor, is still to be seen by others."""
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


def share_out(mib: int, store: Store, memo: Memo, judging: Judging) -> None:
    """Give each its share of ``mib``; together they take no more.

    Seven sixteenths for conversations: one that is forgotten begins anew, without pins and verdict.
    As much for parsed messages: a forgotten one is read again. What is left is for bodies that wait
    for their verdict. Of what is remembered already, the next turns let go.
    """
    most = (mib << 20) * 7 // 16
    store.most_bytes = memo.most_bytes = most
    judging.most_waiting = (mib << 20) - 2 * most


class Pages:
    """The observers whose figures are shown; ``pages`` makes the pages for one configuration.

    Where no totals are kept, the dashboard shows the last exchanges. ``file``: the config file that
    a reload reads; ``reload`` does it, and is set by whoever can. ``option``: what commands need to
    find this proxy. ``probe``: the secret by which probes are told. ``collector`` is paused while a
    rule is proven in a thread of plugins, whose functions it may call.
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
        """Return the pages of one configuration; what waits is judged before any is made.

        ``edits``: whether the rules of ``found`` are used with any upstream.
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
        """Do ``work`` that may call the functions of plugins; raises GivenUpError."""

        def paused() -> _T:
            with self._process.collector.paused():
                return work()

        return self._process.plugins.workers.run(_CURE, paused, _CURE_SECONDS)


@dataclass(eq=False)
class DeferredObserver:
    """Takes finished exchanges; has them judged and given on in portions, on the reactor's thread.

    An agent sends its next request as soon as it has its answer. What is judged, counted and
    logged about the last would be in its way: so all is done for what has gathered, within 50 ms.
    """

    clock: IReactorTime  #: that portions are timed by
    reach: Callable[[Exchange], object]  #: reaches the verdict on one
    give_on: Callable[[int], bool]
    """Delivers so many of those that have their verdict, and returns whether there are more."""
    _waiting: deque[Exchange] = field(default_factory=deque)  #: those without a verdict
    _gathered: int = 0  #: how many came since the last portion
    _timer: IDelayedCall | None = None  #: of the next portion

    def __call__(self, exchange: Exchange) -> None:
        """Have ``exchange`` seen, soon."""
        self._waiting.append(exchange)
        self._gathered += 1
        if self._timer is None:
            self._timer = self.clock.callLater(_SOON, self._some)
        elif self._gathered == _MANY:
            self._timer.reset(0)

    def judge(self, most: int = _MANY, seconds: float = _LONG) -> None:
        """Have those judged that wait: what comes now may be their conversation's next turn.

        ``most`` of them, and not for much longer than so many ``seconds``.
        """
        waiting = self._waiting
        until = self.clock.seconds() + seconds if waiting else 0.0
        for _ in range(min(most, len(waiting))):
            try:
                self.reach(waiting.popleft())
            except Exception:  # a record is lost by that, not the request that comes now
                _log.failure("an exchange could not be judged")
            if self.clock.seconds() > until:
                break

    def settle(self) -> None:
        """Have all seen that wait: somebody asks what has happened."""
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
