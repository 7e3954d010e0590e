"""The proxy as a service: it listens, prints the banner, and stops in order."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import ILogObserver, Logger, globalLogPublisher

from cacheproxy.config import ConfigError
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.kinds.status import Look, UpstreamState
from cacheproxy.core.route.route import FREE
from cacheproxy.core.rules.rule import Rule
from cacheproxy.daemon import banner
from cacheproxy.daemon.listening import CannotListenHereError, Listening, is_same
from cacheproxy.daemon.process_parts import ProcessParts
from cacheproxy.daemon.reloading import ConfigParts, Reloading
from cacheproxy.daemon.signals import exit_with, take
from cacheproxy.observe.judging import Judging
from cacheproxy.observe.log import TerminalObserver, bare_failures
from cacheproxy.proxy.probing.poller import Poller
from cacheproxy.sources import ignored
from cacheproxy.totals.windows import lifetime
from cacheproxy.units import version
from cacheproxy.web.cures import ReloadError

_log = Logger()
_MADE = 10_000
"""New objects after which the garbage collector runs: a request makes some hundreds, and nearly
none of them is in a cycle."""
_LOOK_SECONDS = 4.0
"""Seconds that the banner waits for the upstream's status."""
_STATUS = 98
"""Bytes that twistd reads of a daemon's reason for not starting."""


class ProxyService(MultiService):
    """The proxy as a whole: prints the banner, reloads, and stops its parts, the last first.

    ``twistd``: twistd's own options, None without twistd.
    """

    def __init__(
        self,
        process: ProcessParts,
        listening: Listening,
        parts: ConfigParts,
        reloading: Reloading,
        twistd: Any = None,
    ) -> None:
        super().__init__()
        self._process = process
        self._listening = listening
        self._parts = parts
        self._reloading = reloading
        self._twistd = twistd
        self._pollers = self._made_pollers(parts)
        for service in (process, listening, *self._pollers):
            service.setServiceParent(self)
        process.shown.reload = self._reload
        self._put_in_force(parts)

    def setServiceParent(self, parent: Any) -> None:
        """Under ``twistd -n`` without a log file, log in our own plain lines."""
        twistd = self._twistd
        if (
            twistd is not None
            and twistd.get("nodaemon")
            and not (twistd.get("logfile") or twistd.get("syslog") or twistd.get("logger"))
        ):
            parent.setComponent(ILogObserver, TerminalObserver(sys.stdout))
        globalLogPublisher.addObserver(bare_failures)  # before twistd's own log file sees them
        super().setServiceParent(parent)

    def privilegedStartService(self) -> None:
        """Listen; a port that cannot be opened is one line and exit code 1."""
        try:
            super().privilegedStartService()
        except CannotListenHereError as error:
            self._refuse_start(1, str(error))
        if lacking := self._needs_token(self._parts):
            self._refuse_start(2, lacking)
        itself = self._itself(self._parts)
        if itself and self._parts.config.upstreams:  # else it may still be mended by a reload
            self._refuse_start(2, itself)

    def startService(self) -> None:
        """Print the banner: the first line at once, the rest when the upstream has answered."""
        if not self._listening.url:  # "twist" starts services without privileges
            self.privilegedStartService()
        super().startService()
        if self._process.totals is not None:
            self._process.totals.start()
        self._parts.servers.start()
        reactor = self._process.reactor
        reactor.callWhenRunning(take, reactor, self._begin_stop, self._begin_reload)
        option = banner.proxy_option(self._listening.url)
        process = self._process
        process.log_line.proxy = process.alarming.proxy = process.shown.option = option
        where = self._parts.servers.where
        self._say(banner.first_line(version(), self._listening.url, where))
        for sentence in ignored(os.environ, self._parts.config):
            self._say(sentence)
        # Not before signals are taken: who reads "Ready." may send one.
        reactor.callWhenRunning(lambda: self._run(self._introduce()))

    def stopService(self) -> Any:
        """Stop listening, let open answers finish, then write the records that wait."""
        was_running, self.running = self.running, 0
        return (
            Deferred.fromCoroutine(self._stop()) if was_running else self._listening.stopService()
        )

    async def _stop(self) -> None:
        self._process.shown.live.close()
        self._process.holding.close()
        self._parts.servers.stop()
        for service in reversed(list(self)):
            await maybeDeferred(service.stopService)
        if self._listening.broken_off:
            exit_with(1)

    def _made_pollers(self, parts: ConfigParts) -> list[Poller]:
        seconds, servers = parts.config.poll, parts.servers.all
        return [Poller(each.asker, seconds, self._looked) for each in servers if seconds]

    def _looked(self, look: Look) -> None:
        self._process.looked(look)
        server = self._parts.servers.at(look.url)
        if server is not None:
            server.proving.looked(look)
            server.profiling.looked(look)
            if server.warming is not None:
                server.warming.looked(look)

    def _begin_stop(self) -> None:
        """Stop in order at the first signal, at once at the second."""
        if self.running:
            self._process.reactor.stop()
        else:
            self._listening.hurry()

    def _begin_reload(self) -> None:
        """Reload on a signal; the log has the result."""
        if self.running:
            self._reloading.ask(self._adopt).addErrback(lambda _: None)

    async def _reload(self) -> tuple[str, list[str]]:
        """Reload for our own page; return the changes and the rules in force.

        Raises ReloadError.
        """
        if not self.running:
            raise ReloadError("settings not reloaded: the proxy is about to stop")
        said = await self._reloading.ask(self._adopt)
        return said, list(self._process.shown.dashboard.active)

    def _adopt(self, parts: ConfigParts) -> list[str]:
        """Put ``parts`` in force; return the names of plugins that changed. Raises ConfigError."""
        if not self.running:
            raise ConfigError("the proxy is about to stop")
        objection = self._itself(parts) or self._needs_token(parts)
        if objection:
            raise ConfigError(objection)
        before, self._parts = self._parts, parts
        before.servers.stop()
        changed = self._process.plugins.adopt(parts.found.packages)
        for rule in before.found.on:
            if type(rule) is Rule:  # code rules are let in again by their workers
                self._process.plugins.failures.forgive(rule.name)
        self._put_in_force(parts)
        self._look_at(parts)
        for package in parts.found.packages:
            if package.error is not None:
                said = f"could not be loaded: {package.error}"
                _log.warn("plugin {name} {said}", name=package.name, said=said)
            if package.warning is not None and package.name in changed:
                _log.warn("plugin {name}: {warning}", name=package.name, warning=package.warning)
        for server in parts.servers.all:
            self._run(server.profiling.learn())
        return changed

    def _look_at(self, parts: ConfigParts) -> None:
        parts.servers.start()
        if len(self._pollers) == 1 == len(parts.servers.all):
            self._pollers[0].asker = parts.servers.first.asker
            return
        for poller in self._pollers:
            poller.disownServiceParent()
        self._pollers = self._made_pollers(parts)
        for poller in self._pollers:
            poller.setServiceParent(self)

    def _put_in_force(self, parts: ConfigParts) -> None:
        process, board = self._process, self._process.shown.dashboard
        process.site.adopt(parts.resource, parts.limits, parts.access)
        servers = parts.servers
        process.holding.adopt(parts.config.hold, parts.config.held_memory << 20, servers)
        share_out(parts.config.memory, process.store, process.memo, process.judging)
        process.judging.known = {one.upstream.url.text: one.proving for one in servers.all}
        process.shown.latest.keep(servers.urls)
        process.pricing.prices = {
            one.name: one.target.price for one in servers.all if one.target.price != FREE
        }
        process.log_line.verbose = parts.config.verbose
        process.log_line.clients = parts.found.packages.clients
        process.alarming.adopt(parts.config.alarm)
        self._listening.grace = parts.config.grace
        board.url = servers.first.upstream.url.text
        board.profile = lambda: servers.first.profiling.profile
        board.words = servers.first.words
        board.speed = partial(process.pricing.speed, board.url)
        board.upstreams = servers.as_list
        board.active = [rule.name for rule in parts.found.on if parts.edits]
        process.shown.applying.adopt(board.active)
        board.clients = parts.found.packages.clients
        board.captures = parts.config.capture
        process.shown.prompts.configured = parts.config.show_prompts
        process.shown.prompts.access = parts.access
        process.shown.live.close()  # browsers connect again, under the new access settings

    def _itself(self, parts: ConfigParts) -> str:
        """Return the name of the upstream that is this very proxy, "" for none."""
        for server in parts.servers.all:
            url = server.upstream.url
            if is_same(self._listening.host, url):
                return f"upstream {server.name or url.text} is this proxy itself"
        return ""

    def _needs_token(self, parts: ConfigParts) -> str:
        """Return the error for an open address without a token, "" if all is well."""
        if not self._listening.is_open_to_others or parts.access.token:
            return ""
        return (
            f"{self._listening.url} can be reached from other machines: set a secret in "
            "CACHEPROXY_TOKEN that clients must send, or listen on 127.0.0.1"
        )

    async def _introduce(self) -> None:
        """Print the banner's rest, after one look at the upstream: the poller's, if it polls."""
        parts, process = self._parts, self._process
        first, listening = parts.servers.first, self._listening
        profiling = first.profiling
        others = parts.servers.all[1:]
        asked = [Deferred.fromCoroutine(server.profiling.learn()) for server in others]
        if self._pollers:
            await self._pollers[0].first_look(_LOOK_SECONDS)
        else:
            await profiling.learn()
        look, why = profiling.last_look, None
        if look is None or look.state is UpstreamState.DOWN:
            seconds = parts.config.connect_timeout + 1.0
            why = await first.asker.trouble(seconds)
        else:
            await profiling.learn()
        for each in asked:
            await each
        so_far = await self._lifetime()
        if not self.running:
            return
        lines = banner.rest(
            listening.url,
            None if look is None else look.server,
            parts.found.on,
            process.plugins.packages,
            edits=parts.edits,
            open_to_others=listening.is_open_to_others,
            is_loop=is_same(listening.host, first.upstream.url),
            lifetime=so_far,
            words=first.words(),
            trouble=why,
            name=first.name,
            others=[(one.name, one.profiling.profile.server) for one in others],
            warnings=parts.servers.warnings(),
        )
        gc.freeze()  # what has been made by now stays: the collector need not look at it again
        gc.set_threshold(_MADE)
        for line in lines:
            self._say(line)

    async def _lifetime(self) -> str | None:
        totals = self._process.totals
        try:
            kept = None if totals is None else await totals.ask(lifetime)
        except Exception:  # the log has said why
            return None
        return None if kept is None else banner.lifetime_line(kept)

    def _run(self, coroutine: Coroutine[Any, Any, object]) -> None:
        done = Deferred.fromCoroutine(coroutine)
        done.addErrback(lambda failure: _log.failure("looking at the upstream failed", failure))

    def _refuse_start(self, code: int, message: str) -> NoReturn:
        twistd = self._twistd or {}
        if twistd.get("pidfile"):  # twistd removes it only when its reactor has run
            with contextlib.suppress(OSError):
                Path(twistd["pidfile"]).unlink()
        if twistd.get("statusPipe") is not None:  # a daemon has no terminal, its parent does
            _log.critical("{message}", message=message)
            os.write(twistd["statusPipe"], b"1 " + message.encode()[:_STATUS])
        stop(code, message)

    def _say(self, line: str) -> None:
        _log.info("{line}", line=line)


def stop(code: int, message: str) -> NoReturn:
    """End the process before the reactor runs, with ``message`` on one line."""
    print(f"cacheproxy: {message}", file=sys.__stderr__)
    raise SystemExit(code)


def share_out(mib: int, store: Store, memo: Memo, judging: Judging) -> None:
    """Divide ``mib`` (MiB of memory) among conversations, parsed messages and waiting bodies.

    Conversations get seven sixteenths: a forgotten one starts over, without pins and verdict.
    Parsed messages get as much: a forgotten one is parsed again. The rest is for bodies that wait
    for their verdict. Parts that hold more than their share shrink with the next turns.
    """
    most = (mib << 20) * 7 // 16
    store.most_bytes = memo.most_bytes = most
    judging.most_waiting = (mib << 20) - 2 * most
