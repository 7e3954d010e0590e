"""What tap puts together, in two halves: what lasts, and what a configuration makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint

from cacheproxy.config import Config
from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.rule import Normalizer
from cacheproxy.core.server.prefill import Prefill
from cacheproxy.metrics.counting import Metrics
from cacheproxy.observe.capture import Capture
from cacheproxy.observe.deferred_observer import Afterwards
from cacheproxy.observe.judging import Judging
from cacheproxy.observe.latest import Latest
from cacheproxy.observe.logline import LogLine
from cacheproxy.observe.pricing import Pricing
from cacheproxy.observe.recent import Recent
from cacheproxy.plugin.packages import Packages
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.memory import SessionMemory
from cacheproxy.proxy.exchange.placing import Placing
from cacheproxy.proxy.learning.profiling import Profiling
from cacheproxy.proxy.learning.proving import Proving
from cacheproxy.proxy.resource import ProxyResource
from cacheproxy.proxy.upstream.upstream import Upstream
from cacheproxy.totals.totals import Totals
from cacheproxy.translate.messages import Spellings
from cacheproxy.web.dashboard import Dashboard
from cacheproxy.web.live import Live


@dataclass(frozen=True, slots=True)
class Relaying:
    """What lasts in a process that relays, whatever its configuration becomes.

    ``finished`` takes each exchange that is over. ``via``: our own token in the Via header.
    ``keep_bodies``: whether observers want response bodies. ``learn`` and ``forgot``: see
    ``Translating``. ``progressed``: see ``Course``.
    """

    reactor: Any
    plugins: Plugins
    memory: SessionMemory
    spellings: Spellings
    collector: Collector
    finished: Callable[[Exchange], None]
    via: bytes
    keep_bodies: bool
    progressed: Callable[[int, Prefill | None], None]
    learn: Callable[[Request], Awaitable[None]] | None = None
    forgot: Callable[[], None] = lambda: None

    def keep_what_is_needed(self, arrangement: Arrangement) -> None:
        """Remember the requests of sessions if one of the rules looks at them."""
        self.memory.keep_requests = any(rule.needs_previous for rule in arrangement.rules)


@dataclass(frozen=True, slots=True)
class Lasting:
    """What lives as long as the process, whatever its configuration becomes.

    ``where``: the endpoint as text, for messages.
    """

    reactor: Any
    relaying: Relaying
    front: Front
    endpoint: IStreamServerEndpoint
    where: str
    plugins: Plugins
    capture: Capture | None
    recent: Recent
    metrics: Metrics
    log_line: LogLine
    judging: Judging
    pricing: Pricing
    afterwards: Afterwards
    totals: Totals | None
    latest: Latest
    dashboard: Dashboard
    live: Live


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What one configuration makes. An exchange keeps to the one it began with.

    ``packages``: the plugins. ``rules``: those that are on; ``edits``: whether they are used
    with this upstream.
    ``placing``: where its late system messages go; ``profiling``: what is known of it;
    ``proving``: asks it what it rendered, and for its counters.
    ``forget`` drops what was learned of it.
    """

    config: Config
    upstream: Upstream
    packages: Packages
    rules: Sequence[Normalizer]
    edits: bool
    resource: ProxyResource
    limits: Limits
    access: Access
    placing: Placing
    profiling: Profiling
    proving: Proving
    forget: Callable[[], None]


class Front(Protocol):
    """What stands between the listening socket and the exchanges: this process, or several."""

    site: ProxySite

    def objection(self, port: Any) -> str | None:
        """Return what speaks against serving ``port``, which listens with ``site``."""

    def start(self, port: IListeningPort, gave_up: Callable[[str], None]) -> None:
        """Serve ``port``; call ``gave_up`` with one line if that turns out to be impossible."""

    async def ready(self) -> str | None:
        """Return when requests are served, with a line for the banner if there is one to say."""

    async def prepare(self, config: Config) -> None:
        """Make sure that ``config`` can be adopted; raises ConfigError."""

    def adopt(self, arrangement: Arrangement) -> None:
        """Have what begins from now on go by ``arrangement``."""

    def forget(self) -> None:
        """Take note that another server may have taken the upstream's place."""

    async def stop(self, grace: float) -> int:
        """Listen no more, let open answers finish for ``grace`` seconds.

        Return how many were broken off.
        """

    def hurry(self) -> None:
        """Wait no longer."""

    def channels(self) -> Collection[Any]:
        """Return the open connections of clients, each with its ``requests``."""

    def standing(self) -> list[dict[str, int]] | None:
        """Return how it stands with each worker, None where there are none."""
