"""Options and makeService: the only place where everything is put together."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.application.service import IService
from twisted.internet.endpoints import quoteStringArgument, serverFromString
from twisted.internet.interfaces import IStreamServerEndpoint
from twisted.python import usage

from cacheproxy.config import Config, ConfigError, load, options
from cacheproxy.core.access import Access
from cacheproxy.core.locality import is_local
from cacheproxy.core.rules import Normalizer
from cacheproxy.observe.capture import Capture
from cacheproxy.observe.capturefolder import CaptureError, CaptureFolder
from cacheproxy.observe.judging import Judging
from cacheproxy.observe.logline import LogLine
from cacheproxy.observe.recent import Recent
from cacheproxy.plugins import PluginError, Plugins, choose
from cacheproxy.proxy.exchange import Course
from cacheproxy.proxy.limits import Limits
from cacheproxy.proxy.memory import SessionMemory
from cacheproxy.proxy.normalizing import Normalizing
from cacheproxy.proxy.probe import probe
from cacheproxy.proxy.resource import ProxyResource
from cacheproxy.proxy.site import ProxySite
from cacheproxy.proxy.upstream import Upstream, UpstreamURL, UpstreamURLError
from cacheproxy.service import Parts, ProxyService, stop, version
from cacheproxy.web.diagnosis import PREFIX as DIAGNOSIS
from cacheproxy.web.diagnosis import Diagnosis
from cacheproxy.web.exchanges import PATH as EXCHANGES
from cacheproxy.web.exchanges import Exchanges
from cacheproxy.web.health import PATH as HEALTH
from cacheproxy.web.health import Health
from cacheproxy.web.pages import OwnPages, Page

_BACKLOG = 1024
"""Connections that may wait to be accepted; the kernel may allow fewer."""


def _shown(default: object) -> str:
    return ",".join(default) or "none" if isinstance(default, tuple) else str(default) or "none"


class Options(usage.Options):
    """twistd's options, made from the one table in cacheproxy.config."""

    synopsis = "[options]"
    longdesc = (
        "A reverse proxy that keeps a model server's prompt cache alive for coding agents. "
        "Every option is also an environment variable (CACHEPROXY_PORT ...) and a key of the "
        "TOML file."
    )
    optParameters = [  # noqa: RUF012 - twisted's own interface
        ["config", "c", None, "TOML file to read"],
        *(
            [option.flag, None, None, f"{option.help} [default: {_shown(option.default)}]"]
            for option in options()
            if option.kind is not bool
        ),
    ]
    optFlags = [  # noqa: RUF012 - twisted's own interface
        [option.flag, None, option.help] for option in options() if option.kind is bool
    ]

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse; what cannot be read is one line and exit code 2."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            stop(2, f"{error}: see twistd cacheproxy --help")

    def parseArgs(self, *arguments: str) -> None:
        """Take no arguments: they are usually a forgotten ``--``."""
        if arguments:
            raise usage.UsageError(f"unexpected argument {arguments[0]!r}")

    def postOptions(self) -> None:
        """Fill ``self.settings``, so that a bad setting is told before anything starts."""
        try:
            self.settings = load(self.given(), os.environ, self["config"])
        except ConfigError as error:
            stop(2, str(error))

    def given(self) -> dict[str, Any]:
        """Return what stood on the command line, by field name."""
        return {
            option.field: bool(self[option.flag]) if option.kind is bool else self[option.flag]
            for option in options()
            if self[option.flag]
        }


def makeService(options: Options) -> IService:
    """Return the proxy as a service; a bad setting is one line and exit code 2."""
    from twisted.internet import reactor  # noqa: PLC0415 - it must not be chosen on import

    try:
        return ProxyService(assemble(reactor, options.settings), options.parent)
    except (CaptureError, ConfigError, PluginError, UpstreamURLError) as error:
        stop(2, str(error))


def assemble(reactor: Any, config: Config) -> Parts:
    """Put everything together; raises CaptureError, ConfigError, PluginError, UpstreamURLError."""
    url = UpstreamURL.parse(config.upstream)
    edits = config.edit_remote or is_local(url.host)
    plugins = Plugins()
    plugins.load_packages(config.block)
    known: list[Normalizer] = [*plugins.normalizers(config.rules())]
    rules = choose(known, config.enable, config.disable)
    where, endpoint = _endpoint(reactor, config)
    capture = None
    if config.capture:
        capture = Capture(reactor, CaptureFolder(Path(config.capture).expanduser()))
        plugins.register(capture, "capture")
    recent = Recent()
    plugins.register(recent, "recent")
    plugins.register(LogLine(verbose=config.verbose), "log-line")
    judging = Judging(reactor, plugins.finished)
    upstream = Upstream(reactor, url, config.connect_timeout)
    memory = SessionMemory(keep_requests=any(rule.needs_previous for rule in rules))
    course = Course(
        clock=reactor,
        upstream=upstream,
        normalizing=Normalizing(reactor, rules, plugins.session, memory, edit=edits),
        memory=memory,
        finished=judging,
        wall=time.time,
        via=b"cacheproxy-" + os.urandom(4).hex().encode(),
        keep_bodies=capture is not None,
    )
    names = [rule.name for rule in rules] if edits else []
    pages: dict[bytes, Page] = {
        HEALTH: Health(version(), url.text, names, lambda: probe(upstream, reactor)),
        EXCHANGES: Exchanges(recent),
    }
    own = OwnPages(pages, {DIAGNOSIS: Diagnosis(recent, names)})
    site = ProxySite(
        ProxyResource(course, own),
        reactor,
        _limits(config),
        Access(frozenset(name.lower() for name in config.allow_host), config.token),
    )
    return Parts(
        reactor=reactor,
        endpoint=endpoint,
        where=where,
        site=site,
        upstream=upstream,
        judging=judging,
        capture=capture,
        rules=rules,
        packages=plugins.packages,
        edits=edits,
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
