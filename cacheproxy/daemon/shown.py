"""What our own pages show."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from cacheproxy.core.privacy.access import HEALTH, READY, Access
from cacheproxy.core.rules.normalizer import Normalizer
from cacheproxy.core.servers.status import Look
from cacheproxy.metrics.counting import Metrics
from cacheproxy.metrics.snapshot import MetricsSources
from cacheproxy.observe.latest import Latest
from cacheproxy.observe.recent import Recent
from cacheproxy.plugin.package import Package
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.totals.table import TABLES
from cacheproxy.totals.totals import InMemoryTotals, Totals
from cacheproxy.web.cures import Applying, Cures, reload
from cacheproxy.web.dashboard import Dashboard
from cacheproxy.web.exchanges import ExchangePages, exchanges
from cacheproxy.web.files import static_files
from cacheproxy.web.health import health, named_or, ready
from cacheproxy.web.live import Live
from cacheproxy.web.metrics import MetricsResource
from cacheproxy.web.pages import OwnPages, answer, login, queried
from cacheproxy.web.prompts import Prompts


class Pages:
    """The observers whose figures are shown; ``pages`` makes the pages for one configuration.

    ``totals``: None where none are kept; then the dashboard shows the last exchanges. ``file``: the
    config file that a reload reads; ``reload`` does it, and is set by whoever can. ``option``: what
    commands need to find this proxy.
    """

    reload: Callable[[], Awaitable[tuple[str, list[str]]]]

    def __init__(
        self, reactor: Any, plugins: Plugins, totals: Totals | None, site: ProxySite, version: str
    ) -> None:
        self.file = self.option = ""
        self.recent = Recent()
        self.metrics = Metrics()
        self.latest = Latest()
        unkept = InMemoryTotals(time.time)
        source = totals or unkept
        self.dashboard = Dashboard(source, self.recent, self.latest, version)
        self.prompts = Prompts()
        self.applying = Applying(lambda: self.reload(), self._in_thread)  # noqa: PLW0108 (set later)
        self.dashboard.is_applied = self.applying.is_applied
        self.live = Live(self.dashboard, reactor)
        self.latest.prefills.changed = self.live.progressed
        self._reactor = reactor
        self._failures = plugins.failures
        self._site = site
        self._version = version
        plugins.register(self.recent, "recent")
        plugins.register(self.metrics, "metrics")
        plugins.register(self.live, "live")
        if totals is None:
            plugins.register(unkept, "unkept")

    def looked(self, look: Look) -> None:
        """Take note of a look at the upstream."""
        before, self.latest.looks[look.url] = self.latest.looks.get(look.url), look
        if before is None or before.state is not look.state:
            self.live.looked()

    def pages(
        self,
        servers: Servers,
        rules: Sequence[Normalizer],
        access: Access,
        *,
        packages: Sequence[Package],
        cures: Cures,
        before: Callable[[], None],
        is_up: Callable[[], Awaitable[bool]],
        probe: bytes,
    ) -> OwnPages:
        """Return the pages; ``before`` is called before any of them is made.

        ``is_up``: whether an upstream answers now. ``rules``: those that edit requests, some of
        them of ``packages``. ``cures``: the page of rules for what broke. ``probe``: the secret of
        probes.
        """
        page = partial(
            health,
            self._version,
            servers,
            rules,
            self._failures,
            self.recent,
            packages=packages,
            probe=probe,
        )
        check = partial(ready, is_up)
        metrics = MetricsResource(
            self.metrics,
            MetricsSources(
                self._version,
                self._failures,
                self._reactor.seconds,
                lambda: list(self.latest.looks.values()),
            ),
            [rule.name for rule in rules],
            self._in_thread,
            self._site.channels,
        )
        board = self.dashboard
        one = ExchangePages(
            recent=self.recent,
            cures=cures,
            prompts=self.prompts,
            report=board.report,
            option=lambda: self.option,
        )
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
            before,
        )

    def _in_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)
