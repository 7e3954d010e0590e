"""makeService: the only place where the parts of the proxy are put together.

twistd imports this function and ``Options`` from this module.
"""

from __future__ import annotations

import sys
import time
from functools import partial

from twisted.application.service import IService

from cacheproxy.config import Config, ConfigError
from cacheproxy.core.adapt.late import AUTO, QUIET
from cacheproxy.core.adapt.model import ModelName
from cacheproxy.core.adapt.progress import NAME as PROGRESS
from cacheproxy.core.adapt.progress import PrefillProgress
from cacheproxy.core.adapt.table import MENDING, adaptations
from cacheproxy.core.kinds.belief import Beliefs
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.privacy.origins import origins
from cacheproxy.core.route.stamp import Stamp
from cacheproxy.daemon.listening import Listening, raise_limit
from cacheproxy.daemon.options import Options
from cacheproxy.daemon.process_parts import ProcessParts
from cacheproxy.daemon.reloading import ConfigParts, Reloading
from cacheproxy.daemon.service import ProxyService, stop
from cacheproxy.daemon.signals import hold
from cacheproxy.plugin.package import PluginError
from cacheproxy.plugin.packages import Configured, configured
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.exchange.adapting import Adapting
from cacheproxy.proxy.exchange.admission import Admission
from cacheproxy.proxy.exchange.attempt import ExchangeContext
from cacheproxy.proxy.exchange.normalizing import Normalizing, Unpacking, in_thread
from cacheproxy.proxy.exchange.pool import Server, Servers
from cacheproxy.proxy.probing.asker import Asker
from cacheproxy.proxy.probing.poller import Health
from cacheproxy.proxy.probing.profiling import Profiling
from cacheproxy.proxy.probing.proving import Proving
from cacheproxy.proxy.probing.warming import Warming
from cacheproxy.proxy.resource import ProxyResource
from cacheproxy.proxy.translation.translating import Translating
from cacheproxy.proxy.transport.polling import keep_time, poll_plainly
from cacheproxy.proxy.upstream.upstream import Upstream, UpstreamURL, UpstreamURLError
from cacheproxy.tables import UpstreamTable

_SWITCH_SECONDS = 0.0005
"""Seconds for which a busy thread may keep the interpreter's lock while the reactor waits for it.
With Python's own 0.005, streams beside a large body come in larger steps (benchmarks/README.md)."""


def makeService(options: Options) -> IService:
    """Return the proxy as a service; for a wrong setting print one line and exit with code 2."""
    from twisted.internet import reactor  # noqa: PLC0415 - it must not be chosen on import

    hold()
    raise_limit()
    sys.setswitchinterval(_SWITCH_SECONDS)
    poll_plainly(reactor)
    keep_time(reactor)
    try:
        process = ProcessParts(reactor, options.settings)
        process.shown.file = options.file
        listening = Listening(reactor, options.settings, process.site)
        parts = arrange(process, options.settings)
    except (ConfigError, PluginError, UpstreamURLError) as error:
        stop(2, str(error))
    reloading = Reloading(
        reactor,
        process.plugins.workers,
        options.read,
        partial(arrange, process, again=True),
        options.settings,
        file=options.file,
    )
    return ProxyService(process, listening, parts, reloading, options.parent)


def arrange(process: ProcessParts, config: Config, *, again: bool = False) -> ConfigParts:
    """Return new parts for ``config``; raises ConfigError, PluginError, UpstreamURLError.

    It may be called in any thread: the parts in use stay in use until the service replaces them.
    ``again``: look for packages that were installed since the start, too.
    """
    reactor, plugins, store = process.reactor, process.plugins, process.store
    packages = plugins.packages.load if again else plugins.packages.with_files
    found = configured(config, packages(files=config.plugin, block=config.block))
    servers = Servers(
        [_server(process, config, found, table) for table in config.servers],
        [table.route(number) for number, table in enumerate(config.route, 1)],
        store,
        process.pricing.speed,
    )
    edits = any(server.edits for server in servers.all)
    context = ExchangeContext(
        servers=servers,
        clock=reactor,
        unpacking=Unpacking(reactor, config.max_body << 20, edits=edits),
        normalizing=Normalizing(
            reactor,
            found.packages.plan(found.on if edits else (), config.owner_ignores),
            store,
            workers=plugins.workers,
            collector=process.collector,
            memo=process.memo,
        ),
        store=store,
        finished=process.take,
        judge=process.take.judge,
        wall=time.time,
        via=process.via,
        probe=process.shown.probe,
        holding=process.holding,
        keep_bodies=process.capture is not None,
        ping_after=config.ping_after,
        head_after=config.head_after,
        progressed=process.shown.latest,
    )
    access = Access(
        frozenset(name.lower() for name in config.allow_host),
        config.token,
        origins(config.allow_origin),
    )
    return ConfigParts(
        config=config,
        servers=servers,
        found=found,
        edits=edits,
        resource=ProxyResource(context, process.shown.pages(servers, found, access, edits=edits)),
        limits=Limits(
            body=config.max_body << 20,
            head=config.max_head << 10,
            target=config.max_target << 10,
            connections=config.max_connections,
            in_flight=config.bodies_in_flight << 20,
            idle=config.idle_timeout,
            head_seconds=config.head_timeout,
        ),
        access=access,
    )


def _server(
    process: ProcessParts, config: Config, found: Configured, table: UpstreamTable
) -> Server:
    """Return the parts that deal with one upstream; raises UpstreamURLError."""
    reactor, store, via = process.reactor, process.store, b"1.1 " + process.via
    url = UpstreamURL.parse(table.url)
    edits = config.edit_remote or (is_local(url.host) and not table.remote)
    upstream = Upstream(
        reactor,
        url,
        config.connect_timeout,
        config.upstream_silence,
        key=table.key(),
        is_trusted=len(config.servers) == 1 or not table.remote or table.forward_credentials,
    )
    asker = Asker(reactor, upstream, time.time, via)
    translating = Translating(asker, store.spellings(), config.dialect)
    profiling = Profiling(
        asker,
        spoken=translating.spoken,
        translate=translating.translate,
        asks=edits and config.placement in (AUTO, QUIET),
        beliefs=process.beliefs.setdefault(url.text, Beliefs(time.time)),
    )
    adapting = _adapting(process, config, found, profiling, table.model, edits=edits)
    proving, health = Proving(asker, profiling.beliefs), Health(asker, table.name)
    admission = None
    if config.crowd == "auto" and config.crowd_wait:
        speed, most = process.pricing.pace, config.crowd_wait
        admission = Admission(reactor, url.text, profiling, store, speed=speed, most=most)
    # A session header means a router behind us: it is not known which server would be warmed.
    warms = edits and config.keep_warm == "auto" and not config.session_header
    return Server(
        upstream,
        translating,
        asker,
        profiling,
        proving,
        health,
        table.target,
        adapting,
        edits=edits,
        stamp=Stamp(config.session_header if edits else ()),
        max_context=table.max_context,
        admission=admission,
        warming=Warming(asker, proving, health, store) if warms else None,
    )


def _adapting(
    process: ProcessParts,
    config: Config,
    found: Configured,
    profiling: Profiling,
    model: str,
    *,
    edits: bool,
) -> Adapting:
    """Return the part that adapts requests to the server of ``profiling``.

    ``model``: the name to put into requests, "" for none. ``edits``: whether to edit more (law 5).
    """
    reactor, off, mends = process.reactor, frozenset(config.disable), config.mend == "auto"
    own = adaptations(
        profiling,
        process.store,
        partial(in_thread, reactor),
        placement=config.placement,
        keep_thinking=config.keep_thinking,
        mending=MENDING if mends else (),
    )
    named = [ModelName(model)] if model else []
    theirs = found.packages.adaptations if edits and mends else ()
    return Adapting(
        reactor,
        profiling,
        process.plugins.workers,
        [one for one in (*named, *(own if edits else ())) if one.name not in off],
        foreign=[one for one in theirs if one.name not in off],
        last=PrefillProgress() if edits and PROGRESS not in off else None,
    )
