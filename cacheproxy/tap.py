"""Options and makeService: the only place where everything is put together."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any, NoReturn, cast

from twisted.application.service import IService, Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import quoteStringArgument, serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.logger import ILogObserver, Logger
from twisted.python import usage

from cacheproxy import banner
from cacheproxy.config import Config, ConfigError, load, options
from cacheproxy.core.locality import is_local
from cacheproxy.core.rules import Normalizer
from cacheproxy.observe.logline import LogLine
from cacheproxy.observe.terminal import TerminalObserver
from cacheproxy.plugins import PluginError, Plugins, choose
from cacheproxy.proxy.channel import Limits, ProxySite
from cacheproxy.proxy.exchange import Course
from cacheproxy.proxy.memory import SessionMemory
from cacheproxy.proxy.normalizing import Normalizing
from cacheproxy.proxy.probe import probe
from cacheproxy.proxy.resource import ProxyResource
from cacheproxy.proxy.upstream import Upstream, UpstreamURL, UpstreamURLError
from cacheproxy.web.health import PATH as HEALTH
from cacheproxy.web.health import Health
from cacheproxy.web.pages import OwnPages

_log = Logger()


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
            _stop(2, f"{error}: see twistd cacheproxy --help")

    def parseArgs(self, *arguments: str) -> None:
        """Take no arguments: they are usually a forgotten ``--``."""
        if arguments:
            raise usage.UsageError(f"unexpected argument {arguments[0]!r}")

    def postOptions(self) -> None:
        """Fill ``self.settings``, so that a bad setting is told before anything starts."""
        try:
            self.settings = load(self.given(), os.environ, self["config"])
        except ConfigError as error:
            _stop(2, str(error))

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
        return ProxyService(reactor, options.settings, options.parent)
    except (ConfigError, PluginError, UpstreamURLError) as error:
        _stop(2, str(error))


class ProxyService(Service):
    """Listens, prints the banner, and stops listening.

    ``twistd``: twistd's own options, where it runs under twistd. Raises ConfigError,
    PluginError or UpstreamURLError.
    """

    def __init__(self, reactor: Any, config: Config, twistd: Any = None) -> None:
        self.config = config
        self.address = ""
        self._reactor = reactor
        self._twistd = twistd
        self._port: IListeningPort | None = None
        self._url = UpstreamURL.parse(config.upstream)
        self._edits = config.edit_remote or is_local(self._url.host)
        self._plugins = Plugins()
        self._plugins.load_packages(config.block)
        self._plugins.register(LogLine(verbose=config.verbose), "log-line")
        known: list[Normalizer] = [*self._plugins.normalizers(config.rules())]
        self._rules = choose(known, config.enable, config.disable)
        self._upstream = Upstream(reactor, self._url, config.connect_timeout)
        self._site = self._make_site()
        try:
            self._endpoint = serverFromString(reactor, self._listen())
        except Exception as error:  # whatever an endpoint's parser raises: a missing key file ...
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise ConfigError(f"listen {config.listen!r} is no endpoint: {reason}") from None

    def setServiceParent(self, parent: Any) -> None:
        """Under ``twistd -n`` without a log file, log in our own plain lines."""
        twistd = self._twistd
        if (
            twistd is not None
            and twistd.get("nodaemon")
            and not (twistd.get("logfile") or twistd.get("syslog") or twistd.get("logger"))
        ):
            parent.setComponent(ILogObserver, TerminalObserver(sys.stdout))
        super().setServiceParent(parent)

    def privilegedStartService(self) -> None:
        """Listen; a port that cannot be had is one line and exit code 1."""
        super().privilegedStartService()
        found: list[Any] = []
        self._endpoint.listen(self._site).addBoth(found.append)
        port = found[0] if found else None
        if not hasattr(port, "getHost"):
            error = getattr(port, "value", None)
            self._refuse_start(1, _cannot_listen(error, self._listen()))
        self._port = cast("IListeningPort", port)
        host = self._port.getHost()
        self.address = _url(host)
        if _is_same(host, self._url):
            self._refuse_start(
                2, f"upstream {self._url.text} is this proxy itself: set --upstream or --port"
            )

    def startService(self) -> None:
        """Print the banner: the first line at once, the rest when the upstream has answered."""
        super().startService()
        self._say(banner.first_line(version(), self.address, self._url.text))
        done = Deferred.fromCoroutine(self._introduce())
        done.addErrback(lambda failure: _log.failure("the banner failed", failure))

    def stopService(self) -> Any:
        """Stop listening."""
        super().stopService()
        port, self._port = self._port, None
        return port.stopListening() if port is not None else None

    async def _introduce(self) -> None:
        server = await probe(self._upstream, self._reactor)
        host = self._port.getHost() if self._port is not None else None
        lines = banner.rest(
            self.address,
            server,
            self._rules,
            self._plugins.packages,
            edits=self._edits,
            open_to_others=isinstance(host, IPv4Address | IPv6Address) and not is_loopback(host),
        )
        for line in lines:
            self._say(line)

    def _make_site(self) -> ProxySite:
        memory = SessionMemory(keep_requests=any(rule.needs_previous for rule in self._rules))
        course = Course(
            clock=self._reactor,
            upstream=self._upstream,
            normalizing=Normalizing(
                self._reactor, self._rules, self._plugins.session, memory, edit=self._edits
            ),
            memory=memory,
            finished=self._plugins.finished,
            wall=time.time,
            via=b"cacheproxy-" + os.urandom(4).hex().encode(),
        )
        health = Health(
            version(),
            self._url.text,
            [rule.name for rule in self._rules] if self._edits else [],
            lambda: probe(self._upstream, self._reactor),
        )
        resource = ProxyResource(course, OwnPages({HEALTH: health}))
        return ProxySite(resource, self._reactor, Limits(body=self.config.max_body << 20))

    def _listen(self) -> str:
        if self.config.listen:
            return self.config.listen
        interface = quoteStringArgument(self.config.interface)
        return f"tcp:{self.config.port}:interface={interface}"

    def _refuse_start(self, code: int, message: str) -> NoReturn:
        pidfile = self._twistd.get("pidfile") if self._twistd is not None else None
        if pidfile:  # twistd removes it only when its reactor has run
            with contextlib.suppress(OSError):
                Path(pidfile).unlink()
        _stop(code, message)

    def _say(self, line: str) -> None:
        _log.info("{line}", line=line)


def version() -> str:
    """Return the installed version of cacheproxy."""
    try:
        return distribution_version("cacheproxy-llm")
    except PackageNotFoundError:
        return "0 (not installed)"


def is_loopback(host: IPv4Address | IPv6Address) -> bool:
    """Whether only this machine can reach an address we listen on."""
    return host.host == "::1" or host.host.startswith("127.")


def _url(host: Any) -> str:
    if isinstance(host, IPv4Address):
        return f"http://{host.host}:{host.port}"
    if isinstance(host, IPv6Address):
        return f"http://[{host.host}]:{host.port}"
    name = getattr(host, "name", None)  # of a socket in the file system
    return os.fsdecode(name) if name else str(host)


def _is_same(host: Any, upstream: UpstreamURL) -> bool:
    """Whether requests for ``upstream`` would come back to the address we listen on."""
    if not isinstance(host, IPv4Address | IPv6Address) or host.port != upstream.port:
        return False
    loopback = upstream.host in ("localhost", "::1") or upstream.host.startswith("127.")
    anywhere = host.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
    return upstream.host == host.host or (loopback and (anywhere or is_loopback(host)))


def _cannot_listen(error: BaseException | None, where: str) -> str:
    if isinstance(error, CannotListenError):
        reason = getattr(error.socketError, "strerror", None) or str(error.socketError)
        taken = getattr(error.socketError, "errno", None) in (errno.EADDRINUSE, errno.EACCES)
        mend = "choose another with --port" if taken else "check --interface"
        return f"cannot listen on {where}: {reason}: {mend}"
    return f"cannot listen on {where}: {error}"


def _stop(code: int, message: str) -> NoReturn:
    """End the process before the reactor runs, with one line that says why."""
    print(f"cacheproxy: {message}", file=sys.__stderr__)
    raise SystemExit(code)
