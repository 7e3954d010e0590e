"""The proxy as a service: it listens, prints the banner, and stops in order."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any, NoReturn, cast

from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint
from twisted.internet.threads import deferToThreadPool
from twisted.logger import ILogObserver, Logger

from cacheproxy import banner
from cacheproxy.core.rules import Normalizer
from cacheproxy.core.server import LLAMA_SERVER
from cacheproxy.listening import address_url, cannot_listen, is_loopback, is_same
from cacheproxy.observe.capture import Capture
from cacheproxy.observe.judging import Judging
from cacheproxy.observe.terminal import TerminalObserver
from cacheproxy.plugins import Package
from cacheproxy.proxy.probe import probe, template_order
from cacheproxy.proxy.site import ProxySite
from cacheproxy.proxy.upstream import Upstream

_log = Logger()


@dataclass(frozen=True, slots=True)
class Parts:
    """What tap has put together. ``where``: the endpoint as text, for messages."""

    reactor: Any
    endpoint: IStreamServerEndpoint
    where: str
    site: ProxySite
    upstream: Upstream
    judging: Judging
    capture: Capture | None
    rules: Sequence[Normalizer]
    packages: Sequence[Package]
    edits: bool


class ProxyService(Service):
    """``twistd``: twistd's own options, where it runs under twistd."""

    def __init__(self, parts: Parts, twistd: Any = None) -> None:
        self.address = ""
        self._parts = parts
        self._twistd = twistd
        self._port: IListeningPort | None = None

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
        self._parts.endpoint.listen(self._parts.site).addBoth(found.append)
        port = found[0] if found else None
        if not hasattr(port, "getHost"):
            error = getattr(port, "value", None)
            self._refuse_start(1, cannot_listen(error, self._parts.where))
        self._port = cast("IListeningPort", port)
        host = self._port.getHost()
        self.address = address_url(host)
        url = self._parts.upstream.url
        if is_same(host, url):
            self._refuse_start(
                2, f"upstream {url.text} is this proxy itself: set --upstream or --port"
            )
        if self._open_to_others() and not self._parts.site.access.token:
            self._refuse_start(
                2,
                f"{self.address} can be reached from other machines: set a secret in "
                "CACHEPROXY_TOKEN that clients must send, or listen on 127.0.0.1",
            )

    def startService(self) -> None:
        """Print the banner: the first line at once, the rest when the upstream has answered."""
        super().startService()
        self._parts.judging.start()
        self._say(banner.first_line(version(), self.address, self._parts.upstream.url.text))
        done = Deferred.fromCoroutine(self._introduce())
        done.addErrback(lambda failure: _log.failure("the banner failed", failure))

    def stopService(self) -> Any:
        """Stop listening; then finish the records that are waiting, in a thread."""
        super().stopService()
        port, self._port = self._port, None
        closed = maybeDeferred(port.stopListening) if port is not None else succeed(None)
        return closed.addCallback(lambda _: Deferred.fromCoroutine(self._finish_records()))

    async def _finish_records(self) -> None:
        """Verdicts first: what they deliver, here on the reactor, may still be captured."""
        reactor, capture = self._parts.reactor, self._parts.capture
        await deferToThreadPool(reactor, reactor.getThreadPool(), self._parts.judging.stop)
        if capture is not None:
            await deferToThreadPool(reactor, reactor.getThreadPool(), capture.close)

    async def _introduce(self) -> None:
        parts = self._parts
        server = await probe(parts.upstream, parts.reactor)
        lines = banner.rest(
            self.address,
            server,
            parts.rules,
            parts.packages,
            edits=parts.edits,
            open_to_others=self._open_to_others(),
        )
        for line in lines:
            self._say(line)
        if server is not None and server.kind == LLAMA_SERVER:
            order = await template_order(parts.upstream, parts.reactor)
            if order is not None:
                parts.judging.order = order

    def _open_to_others(self) -> bool:
        host = self._port.getHost() if self._port is not None else None
        return isinstance(host, IPv4Address | IPv6Address) and not is_loopback(host)

    def _refuse_start(self, code: int, message: str) -> NoReturn:
        pidfile = self._twistd.get("pidfile") if self._twistd is not None else None
        if pidfile:  # twistd removes it only when its reactor has run
            with contextlib.suppress(OSError):
                Path(pidfile).unlink()
        stop(code, message)

    def _say(self, line: str) -> None:
        _log.info("{line}", line=line)


def version() -> str:
    """Return the installed version of cacheproxy."""
    try:
        return distribution_version("cacheproxy-llm")
    except PackageNotFoundError:
        return "0 (not installed)"


def stop(code: int, message: str) -> NoReturn:
    """End the process before the reactor runs, with one line that says why."""
    print(f"cacheproxy: {message}", file=sys.__stderr__)
    raise SystemExit(code)
