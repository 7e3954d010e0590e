"""makeService: the only place where everything is put together.

twistd takes this and ``Options`` from here.
"""

from __future__ import annotations

import sys
import time
from functools import partial

from twisted.application.service import IService

from cacheproxy.config import Config, ConfigError
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.privacy.origins import origins
from cacheproxy.core.route.stamp import Stamp
from cacheproxy.daemon.lasting import Lasting
from cacheproxy.daemon.listening import Listening, raise_limit
from cacheproxy.daemon.options import Options
from cacheproxy.daemon.reloading import ConfigParts, Reloading
from cacheproxy.daemon.service import ProxyService, stop
from cacheproxy.daemon.signals import hold
from cacheproxy.observe.capture import CaptureError
from cacheproxy.observe.spans import SpansError
from cacheproxy.plugin.package import PluginError
from cacheproxy.plugin.packages import configured
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.exchange.adapting import AUTO, QUIET, Adapting
from cacheproxy.proxy.exchange.attempt import ExchangeContext
from cacheproxy.proxy.exchange.normalizing import Normalizing, Unpacking
from cacheproxy.proxy.exchange.servers import Server, Servers
from cacheproxy.proxy.resource import ProxyResource
from cacheproxy.proxy.servers.asker import Asker
from cacheproxy.proxy.servers.poller import Health
from cacheproxy.proxy.servers.profiling import Profiling
from cacheproxy.proxy.servers.proving import Proving
from cacheproxy.proxy.translation.translating import Translating
from cacheproxy.proxy.transport.polling import keep_time, poll_plainly
from cacheproxy.proxy.upstream.upstream import Upstream, UpstreamURL, UpstreamURLError
from cacheproxy.tables import UpstreamTable

_SWITCH_SECONDS = 0.0005
"""How long a busy thread may keep the reactor waiting for the interpreter, each time that it asks.
With Python's own 0.005, streams beside a large body come in larger steps (benchmarks/README.md)."""


def makeService(options: Options) -> IService:
    """Return the proxy as a service; a bad setting is one line and exit code 2."""
    from twisted.internet import reactor  # noqa: PLC0415 - it must not be chosen on import

    hold()
    raise_limit()
    sys.setswitchinterval(_SWITCH_SECONDS)
    poll_plainly(reactor)
    keep_time(reactor)
    try:
        lasting = Lasting(reactor, options.settings)
        lasting.shown.file = options.file
        listening = Listening(reactor, options.settings, lasting.site)
        arrangement = arrange(lasting, options.settings)
    except (
        CaptureError,
        ConfigError,
        PluginError,
        SpansError,
        UpstreamURLError,
    ) as error:
        stop(2, str(error))
    reloading = Reloading(
        lasting.plugins.workers,
        options.read,
        partial(arrange, lasting, again=True),
        options.settings,
        options.file,
    )
    return ProxyService(lasting, listening, arrangement, reloading, options.parent)


def arrange(lasting: Lasting, config: Config, *, again: bool = False) -> ConfigParts:
    """Make what depends on the configuration; raises ConfigError, PluginError, UpstreamURLError.

    It only makes, in whatever thread: what is in force stays so until the service says otherwise.
    ``again``: look for packages that were installed since the start, too.
    """
    reactor, plugins, store = lasting.reactor, lasting.plugins, lasting.store
    packages = plugins.packages.again if again else plugins.packages.with_files
    found = configured(config, packages(files=config.plugin, block=config.block))
    servers = Servers(
        [_server(lasting, config, table) for table in config.servers],
        [table.route(number) for number, table in enumerate(config.route, 1)],
        store,
        lasting.pricing.speed,
    )
    edits = any(server.edits for server in servers.all)
    context = ExchangeContext(
        servers=servers,
        clock=reactor,
        unpacking=Unpacking(reactor, config.max_body << 20, edits=edits),
        normalizing=Normalizing(
            reactor,
            found.packages.plan(found.on if edits else ()),
            store,
            workers=plugins.workers,
            collector=lasting.collector,
            memo=lasting.memo,
        ),
        store=store,
        finished=lasting.take,
        wall=time.time,
        via=lasting.via,
        probe=lasting.shown.probe,
        keep_bodies=lasting.capture is not None,
        ping_after=config.ping_after,
        progressed=lasting.shown.latest,
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
        resource=ProxyResource(
            context,
            lasting.shown.pages(servers, found, access, edits=edits),
        ),
        limits=_limits(config),
        access=access,
    )


def _server(lasting: Lasting, config: Config, table: UpstreamTable) -> Server:
    """Make all that deals with one upstream; raises UpstreamURLError."""
    reactor, store, via = lasting.reactor, lasting.store, b"1.1 " + lasting.via
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
    )
    adapting = Adapting(
        reactor, profiling, store, placing=config.placement, keeping=config.keep_thinking
    )
    return Server(
        upstream,
        translating,
        asker,
        profiling,
        Proving(asker, profiling),
        Health(asker, table.name),
        table.target,
        adapting=adapting if edits else None,
        stamp=Stamp(config.session_header if edits else ()),
        max_context=table.max_context,
        model=table.model,
    )


def _limits(config: Config) -> Limits:
    return Limits(
        body=config.max_body << 20,
        head=config.max_head << 10,
        target=config.max_target << 10,
        connections=config.max_connections,
        idle=config.idle_timeout,
        head_seconds=config.head_timeout,
    )
