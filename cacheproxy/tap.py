"""makeService: the only place where everything is put together.

twistd takes this and ``Options`` from here.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import platformdirs
from twisted.application.service import IService
from twisted.internet.endpoints import quoteStringArgument, serverFromString
from twisted.internet.interfaces import IStreamServerEndpoint
from twisted.internet.threads import deferToThreadPool
from twisted.web.resource import Resource

from cacheproxy.config import Config, ConfigError
from cacheproxy.core.collector import Collector
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.rules.rule import Normalizer, client_name
from cacheproxy.daemon.descriptors import raise_limit
from cacheproxy.daemon.options import Options
from cacheproxy.daemon.reloading import Reloading
from cacheproxy.daemon.service import ProxyService, stop, version
from cacheproxy.daemon.wiring import Arrangement, Lasting
from cacheproxy.metrics.counting import Metrics
from cacheproxy.metrics.snapshot import Now
from cacheproxy.observe.capture import Capture
from cacheproxy.observe.capturefolder import CaptureError, CaptureFolder
from cacheproxy.observe.deferred_observer import Afterwards
from cacheproxy.observe.judging import Judging
from cacheproxy.observe.latest import Latest
from cacheproxy.observe.logline import LogLine
from cacheproxy.observe.pricing import Pricing
from cacheproxy.observe.recent import Recent
from cacheproxy.observe.spans import Spans, SpansError
from cacheproxy.plugin.errors import PluginError
from cacheproxy.plugin.packages import Packages, choose
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.exchange import Course
from cacheproxy.proxy.exchange.memory import SessionMemory
from cacheproxy.proxy.exchange.normalizing import Normalizing
from cacheproxy.proxy.exchange.placing import AUTO, QUIET, Placing
from cacheproxy.proxy.learning.profiling import Profiling
from cacheproxy.proxy.learning.proving import Proving
from cacheproxy.proxy.resource import ProxyResource
from cacheproxy.proxy.translation.counting import Counting
from cacheproxy.proxy.translation.dialects import Dialects
from cacheproxy.proxy.translation.translating import Translating
from cacheproxy.proxy.transport.polling import poll_plainly
from cacheproxy.proxy.upstream.probe import probe
from cacheproxy.proxy.upstream.upstream import Upstream, UpstreamURL, UpstreamURLError
from cacheproxy.totals.migrations import TotalsError
from cacheproxy.totals.totals import Totals
from cacheproxy.translate.messages import Spellings
from cacheproxy.web.dashboard import DATA, DETAIL, REQUESTS, Dashboard
from cacheproxy.web.diagnosis import PREFIX as DIAGNOSIS
from cacheproxy.web.diagnosis import Diagnosis
from cacheproxy.web.exchanges import PATH as EXCHANGES
from cacheproxy.web.exchanges import Exchanges
from cacheproxy.web.files import static_files
from cacheproxy.web.health import PATH as HEALTH
from cacheproxy.web.health import Health
from cacheproxy.web.live import PATH as LIVE
from cacheproxy.web.live import Live
from cacheproxy.web.login import PATH as LOGIN
from cacheproxy.web.login import Login
from cacheproxy.web.memory_store import Unkept
from cacheproxy.web.metrics import PATH as METRICS
from cacheproxy.web.metrics import MetricsPage
from cacheproxy.web.pages import OwnPages, Page

_SWITCH_SECONDS = 0.0005
"""How long a thread with work may keep the reactor waiting for the interpreter, each time that it
asks. With Python's own 0.005 a stream's median gap beside a 20 MB body grew from 10 to 15 ms."""
_BACKLOG = 1024
"""Connections that may wait to be accepted; the kernel may allow fewer."""


def makeService(options: Options) -> IService:
    """Return the proxy as a service; a bad setting is one line and exit code 2."""
    from twisted.internet import reactor  # noqa: PLC0415 - it must not be chosen on import

    _set_up_process(reactor)
    try:
        lasting = make_lasting(reactor, options.settings)
        arrangement = arrange(lasting, options.settings)
    except (
        CaptureError,
        ConfigError,
        PluginError,
        SpansError,
        TotalsError,
        UpstreamURLError,
    ) as error:
        stop(2, str(error))
    reloading = Reloading(
        lasting.plugins.workers, options.read, partial(arrange, lasting), options.settings
    )
    return ProxyService(lasting, arrangement, reloading, options.parent)


def _set_up_process(reactor: Any) -> None:
    """Let this process have what it needs of the system, of Python and of its reactor."""
    raise_limit()
    sys.setswitchinterval(_SWITCH_SECONDS)
    poll_plainly(reactor)


def make_lasting(reactor: Any, config: Config) -> Lasting:
    """Make what lives as long as the process; raises CaptureError, ConfigError, PluginError."""
    where, endpoint = _endpoint(reactor, config)
    plugins = Plugins(reactor)
    plugins.adopt(Packages.load(config.block, config.plugin))
    capture = None
    if config.capture:
        capture = Capture(reactor, CaptureFolder(Path(config.capture).expanduser()))
        plugins.register(capture, "capture")
    recent = Recent()
    plugins.register(recent, "recent")
    metrics = Metrics()
    plugins.register(metrics, "metrics")
    if config.otel:
        spans = Spans(version())
        plugins.register(spans, "spans")
        reactor.addSystemEventTrigger("after", "shutdown", spans.stop)  # all records are in by then
    log_line = LogLine(reactor, verbose=config.verbose)
    plugins.register(log_line, "log-line")
    totals, latest = _totals(reactor, config, plugins), Latest()
    dashboard = _dashboard(reactor, plugins, totals, recent, latest)
    live = Live(dashboard, reactor)
    latest.prefills.changed = live.progressed
    collector = Collector()
    plugins.register(live, "live")
    pricing = Pricing(plugins.finished)
    judging = Judging(reactor, pricing, collector)
    afterwards = Afterwards(reactor, judging)
    return Lasting(
        reactor=reactor,
        site=ProxySite(Resource(), reactor, Limits(), Access()),
        memory=SessionMemory(keep_requests=False),
        memo=Memo(),
        spellings=Spellings(),
        collector=collector,
        via=b"cacheproxy-" + os.urandom(4).hex().encode(),
        endpoint=endpoint,
        where=where,
        plugins=plugins,
        capture=capture,
        recent=recent,
        metrics=metrics,
        log_line=log_line,
        judging=judging,
        pricing=pricing,
        afterwards=afterwards,
        totals=totals,
        latest=latest,
        dashboard=dashboard,
        live=live,
    )


def arrange(lasting: Lasting, config: Config) -> Arrangement:
    """Make what depends on the configuration; raises ConfigError, PluginError, UpstreamURLError.

    It only makes, in whatever thread: what is in force stays so until the service says otherwise.
    """
    reactor, plugins, memory = lasting.reactor, lasting.plugins, lasting.memory
    via = b"1.1 " + lasting.via
    url = UpstreamURL.parse(config.upstream)
    edits = config.edit_remote or is_local(url.host)
    packages = plugins.packages.with_files(config.plugin, config.block)
    rules = choose(packages.normalizers(config.rules()), config.enable, config.disable)
    upstream = Upstream(reactor, url, config.connect_timeout, config.upstream_silence)
    dialects = Dialects(upstream, reactor, config.dialect, via)
    translating = Translating(
        reactor,
        dialects,
        Counting(upstream, reactor, lasting.spellings),
        lasting.spellings,
        time.time,
    )
    profiling = Profiling(
        reactor,
        upstream,
        dialects,
        translating,
        asks=edits and config.placement in (AUTO, QUIET),
        wall=time.time,
        via=via,
    )
    placing = Placing(reactor, profiling, config.placement)
    course = Course(
        clock=reactor,
        upstream=upstream,
        normalizing=Normalizing(
            reactor,
            rules,
            memory,
            edit=edits,
            hooks=packages.session_hooks(),
            workers=plugins.workers,
            failures=plugins.failures,
            collector=lasting.collector,
            memo=lasting.memo,
        ),
        memory=memory,
        finished=lasting.afterwards,
        wall=time.time,
        via=lasting.via,
        translating=translating,
        placing=placing if edits else None,
        keep_bodies=lasting.capture is not None,
        ping_after=config.ping_after,
        progressed=lasting.latest.prefills,
    )
    access = Access(frozenset(name.lower() for name in config.allow_host), config.token)
    return Arrangement(
        config=config,
        upstream=upstream,
        packages=packages,
        rules=rules,
        edits=edits,
        resource=ProxyResource(
            course, _own_pages(lasting, course, rules if edits else (), access, profiling)
        ),
        limits=_limits(config),
        access=access,
        placing=placing,
        profiling=profiling,
        proving=Proving(reactor, upstream, profiling, via),
    )


def _own_pages(
    lasting: Lasting,
    course: Course,
    rules: Sequence[Normalizer],
    access: Access,
    profiling: Profiling,
) -> OwnPages:
    reactor, failures = lasting.reactor, lasting.plugins.failures
    upstream, placing = course.upstream, course.placing
    names = [rule.name for rule in rules]
    pages: dict[bytes, Page] = {
        HEALTH: Health(
            version(),
            upstream.url.text,
            names,
            lambda: probe(upstream, reactor),
            failures,
            clients={rule.name: client_name(rule) for rule in rules},
            recent=lasting.recent,
            placement=None if placing is None else placing.told,
            profile=profiling.told,
        ),
        EXCHANGES: Exchanges(lasting.recent),
    }
    metrics = MetricsPage(
        lasting.metrics,
        Now(version(), failures, reactor.seconds, lambda: lasting.latest.look),
        names,
        lambda work: deferToThreadPool(reactor, reactor.getThreadPool(), work),
        lasting.site.channels,
    )
    dashboard = lasting.dashboard
    return OwnPages(
        pages,
        {
            DIAGNOSIS: Diagnosis(lasting.recent, names, lambda: dashboard.captures),
            DETAIL: dashboard.detail,
        },
        queried={DATA: dashboard.data, REQUESTS: dashboard.requests},
        direct={**static_files(), METRICS: metrics, LIVE: lasting.live, LOGIN: Login(access)},
        before=lasting.afterwards.settle,
    )


def _totals(reactor: Any, config: Config, plugins: Plugins) -> Totals | None:
    if config.state_dir == "none":
        return None
    folder = Path(config.state_dir).expanduser()
    if config.state_dir == "user":
        folder = platformdirs.user_state_path("cacheproxy")
    totals = Totals(reactor, folder, time.time)
    totals.check()
    plugins.register(totals.recorder, "totals")
    return totals


def _dashboard(
    reactor: Any, plugins: Plugins, totals: Totals | None, recent: Recent, latest: Latest
) -> Dashboard:
    """Return the dashboard; without totals it shows the last exchanges."""
    if totals is not None:
        return Dashboard(totals, recent, latest, version(), kept=True)
    unkept = Unkept(reactor, time.time)
    plugins.register(unkept, "unkept")
    return Dashboard(unkept, recent, latest, version(), kept=False)


def _limits(config: Config) -> Limits:
    return Limits(
        body=config.max_body << 20,
        head=config.max_head << 10,
        target=config.max_target << 10,
        connections=config.max_connections,
        idle=config.idle_timeout,
        head_seconds=config.head_timeout,
    )


def _endpoint(reactor: Any, config: Config) -> tuple[str, IStreamServerEndpoint]:
    interface = quoteStringArgument(config.interface)
    where = config.listen or f"tcp:{config.port}:interface={interface}"
    # Twisted's 50 makes the rest of a burst wait a second, until their SYN is sent again.
    backlog = "" if config.listen else f":backlog={_BACKLOG}"
    try:
        return where, serverFromString(reactor, where + backlog)
    except Exception as error:  # whatever an endpoint's parser raises: a missing key file ...
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ConfigError(f"listen {config.listen!r} is no endpoint: {reason}") from None
