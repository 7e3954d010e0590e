"""What our own pages show."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.privacy.access import HEALTH, READY, Access
from cacheproxy.core.servers.status import Look
from cacheproxy.daemon.records import Records
from cacheproxy.metrics import Metrics, MetricsSources
from cacheproxy.observe.recent import Latest, Recent
from cacheproxy.plugin.packages import Configured
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.totals.requests import TABLES
from cacheproxy.totals.totals import InMemoryTotals
from cacheproxy.web.cures import Applying, Cures, reload
from cacheproxy.web.dashboard import Dashboard
from cacheproxy.web.exchanges import ExchangePages, exchanges
from cacheproxy.web.files import static_files
from cacheproxy.web.live import Live
from cacheproxy.web.monitoring import MetricsResource, health, named_or, ready
from cacheproxy.web.pages import OwnPages, Prompts, answer, login, queried

_T = TypeVar("_T")
_CURE, _CURE_SECONDS = "cure", 30.0
"""A rule is proven in a thread of plugins: for how long."""


class Pages:
    """The observers whose figures are shown; ``pages`` makes the pages for one configuration.

    Where no totals are kept, the dashboard shows the last exchanges. ``file``: the config file that
    a reload reads; ``reload`` does it, and is set by whoever can. ``option``: what commands need to
    find this proxy. ``probe``: the secret by which probes are told. ``collector`` is paused while a
    rule is proven in a thread of plugins, whose functions it may call.
    """

    reload: Callable[[], Awaitable[tuple[str, list[str]]]]

    def __init__(  # noqa: PLR0917 (all that is shown)
        self,
        plugins: Plugins,
        records: Records,
        store: Store,
        collector: Collector,
        site: ProxySite,
        version: str,
    ) -> None:
        self.file = self.option = ""
        self.probe = os.urandom(16).hex().encode()
        self.recent = Recent()
        self.metrics = Metrics()
        self.latest = Latest()
        unkept = InMemoryTotals(time.time)
        source = records.totals or unkept
        self.dashboard = Dashboard(source, self.recent, self.latest, version)
        self.prompts = Prompts()
        self.applying = Applying(lambda: self.reload(), self._in_thread)  # noqa: PLW0108 (set later)
        self.dashboard.is_applied = self.applying.is_applied
        self.live = Live(self.dashboard, plugins.reactor)
        self.latest.prefills.changed = self.live.progressed
        self._plugins = plugins
        self._records = records
        self._store = store
        self._collector = collector
        self._site = site
        self._version = version
        plugins.register(self.recent, "recent")
        plugins.register(self.metrics, "metrics")
        plugins.register(self.live, "live")
        if records.totals is None:
            plugins.register(unkept, "unkept")

    def looked(self, look: Look) -> None:
        """Take note of a look at the upstream."""
        before, self.latest.looks[look.url] = self.latest.looks.get(look.url), look
        if before is None or before.state is not look.state:
            self.live.looked()

    def pages(
        self, servers: Servers, found: Configured, access: Access, *, edits: bool
    ) -> OwnPages:
        """Return the pages of one configuration; what waits is judged before any is made.

        ``edits``: whether the rules of ``found`` are used with any upstream.
        """
        rules, failures = found.on if edits else (), self._plugins.failures
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
        metrics = MetricsResource(
            self.metrics,
            MetricsSources(
                self._version,
                failures,
                self._plugins.reactor.seconds,
                lambda: list(self.latest.looks.values()),
            ),
            [rule.name for rule in rules],
            self._in_thread,
            self._site.channels,
        )
        board = self.dashboard
        cures = Cures(
            recent=self.recent,
            store=self._store,
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
                b"/_cacheproxy/detail/": one.detail,
                b"/_cacheproxy/conversations/": board.conversation,
                b"/_cacheproxy/cure/": cures,
                b"/_cacheproxy/break/": one.broken,
                b"/_cacheproxy/diagnose/": one.diagnosis,
            },
            self._records.take.settle,
        )

    def _in_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        reactor = self._plugins.reactor
        return deferToThreadPool(reactor, reactor.getThreadPool(), work)

    def _prove(self, work: Callable[[], _T]) -> Awaitable[_T]:
        """Do ``work`` that may call the functions of plugins; raises GivenUpError."""

        def paused() -> _T:
            with self._collector.paused():
                return work()

        return self._plugins.workers.run(_CURE, paused, _CURE_SECONDS)
