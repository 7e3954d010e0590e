"""Read the configuration again while the proxy runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.config import Config, ConfigError
from cacheproxy.core.privacy.access import Access
from cacheproxy.plugin.package import PluginError
from cacheproxy.plugin.packages import Configured
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.proxy.exchange.workers import NoThreadError, TookTooLongError, Workers
from cacheproxy.proxy.resource import ProxyResource
from cacheproxy.proxy.upstream.upstream import UpstreamURLError
from cacheproxy.web.cures import ReloadError

_log = Logger()
_NAME = "reload"
_NOT = "settings not reloaded, the old ones stay in use"
_SECONDS = 30.0
"""How long it may take: a plugin's file is run, and imports what it will."""
_SETTLED = 0.2
"""Seconds after which the file must still say what was read: it may have been half written."""
_READINGS = 10
"""Of a file that changes all the time."""
_LOOKS = (0.5, 2.0, 8.0)
"""Seconds before each look, after a reload, at whether the file says something else by now."""
NEED_A_RESTART = (
    "port",
    "interface",
    "listen",
    "block",
    "capture",
    "state_dir",
    "poll",
    "otel",
)
"""Settings that stay what they were when the process started."""


@dataclass(frozen=True, slots=True)
class ConfigParts:
    """What one configuration makes. An exchange keeps to the one it began with."""

    config: Config  #: the settings
    servers: Servers  #: all that deals with the upstreams
    found: Configured  #: the plugins, and the rules
    edits: bool  #: whether they are used with any upstream
    resource: ProxyResource  #: answers requests
    limits: Limits  #: of clients
    access: Access  #: who may ask


_Adopt = Callable[[ConfigParts], list[str]]


@dataclass(eq=False)
class Reloading:
    """Reads and arranges in a thread of ``workers``, then hands over on the reactor's.

    What is wrong is one line, and changes nothing; so is a plugin's file that does not come to its
    end. A file that is being written is read again.
    """

    clock: Any  #: an IReactorTime
    workers: Workers  #: see above
    read: Callable[[str | None], Config]
    """Returns what is configured by a text of the file, None for one that cannot be read."""
    arrange: Callable[[Config], ConfigParts]  #: makes of it what is needed
    running: Config  #: the configuration in force
    file: str = ""  #: where it may stand
    _asked: list[Deferred[str]] = field(default_factory=list)  #: who waits for the next reload
    _busy: bool = False  #: whether it reloads
    _judged: str | None = None  #: the file's text that was read last
    _looks: tuple[float, ...] = ()  #: seconds before each look that is yet to come
    _later: IDelayedCall | None = None  #: the next look

    def ask(self, adopt: _Adopt, looks: tuple[float, ...] = _LOOKS) -> Deferred[str]:
        """Reload once, however often this is called meanwhile, and once more after that.

        ``adopt`` puts an parts in force and returns the names of the plugins that are not
        what they were, or raises ConfigError. Fires with the line that is logged; errbacks with
        ReloadError, which was logged, too. ``looks``: seconds before each look after that.
        """
        asked: Deferred[str] = Deferred()
        self._asked.append(asked)
        self._looks, later, self._later = looks, self._later, None
        if later is not None:
            later.cancel()
        if not self._busy:
            self._busy = True
            Deferred.fromCoroutine(self._reload_while_asked(adopt))
        return asked

    async def _reload_while_asked(self, adopt: _Adopt) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, []
                said: str | Failure
                try:
                    said = await self._reload(adopt)
                    _log.info("{line}", line=said)
                except ReloadError as error:
                    said = Failure()
                    _log.warn("{why}", why=str(error))
                except Exception:
                    said = Failure()
                    _log.failure("the reload failed", said)
                self._look_later(adopt)
                for one in asked:
                    if not one.called:  # else it was cancelled
                        one.callback(said)
        finally:
            self._busy = False

    async def _reload(self, adopt: _Adopt) -> str:
        self.workers.forgive()
        try:
            wanted, parts = await self._settled()
            plugins = adopt(parts)
        except (TookTooLongError, NoThreadError) as error:
            self._looks = ()  # it is not the file that was too early
            raise ReloadError(f"{_NOT}: it {error}") from None
        except (ConfigError, PluginError, UpstreamURLError) as error:
            raise ReloadError(f"{_NOT}: {error}") from None
        outdated = [each.name for each in parts.found.packages if each.outdated]
        line = summary(self.running, wanted, plugins, outdated)
        self.running = parts.config
        return line

    async def _settled(self) -> tuple[Config, ConfigParts]:
        """Return what the file says once it says the same for a while, or raise what is wrong."""
        for _ in range(_READINGS):
            self._judged, found = await self.workers.run(_NAME, self._prepare, _SECONDS)
            await deferLater(self.clock, _SETTLED)
            if await self.workers.run(_NAME, self._text, _SECONDS) == self._judged:
                if isinstance(found, Exception):
                    raise found
                return found
        raise ConfigError(f"{self.file} is still being written")

    def _prepare(self) -> tuple[str | None, tuple[Config, ConfigParts] | Exception]:
        """Return the file's text, and what it comes to, or what is wrong with it."""
        text = self._text()
        try:
            wanted = self.read(text)
            kept = {name: getattr(self.running, name) for name in NEED_A_RESTART}
            parts = self.arrange(msgspec.structs.replace(wanted, **kept))
            _check_upstream(self.running, wanted, text, self.file or "the config file")
        except (ConfigError, PluginError, UpstreamURLError) as error:
            return text, error
        return text, (wanted, parts)

    def _text(self) -> str | None:
        """Return what the file says now, None where it cannot be read."""
        try:
            return Path(self.file).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    # After a reload, or a refusal: whoever writes the file may be slow.

    def _look_later(self, adopt: _Adopt) -> None:
        if self._looks and not self._asked:
            seconds, self._looks = self._looks[0], self._looks[1:]
            self._later = self.clock.callLater(seconds, self._look, adopt)

    def _look(self, adopt: _Adopt) -> None:
        """Reload if the file says something else than what was read; else look once more."""

        def look(text: str | None) -> None:
            if self._busy:
                return
            if text == self._judged:
                self._look_later(adopt)
            else:
                self.ask(adopt, self._looks).addErrback(lambda _: None)

        self._later = None
        self.workers.run(_NAME, self._text, _SECONDS).addCallbacks(look, lambda _: None)


def _check_upstream(running: Config, wanted: Config, text: str | None, file: str) -> None:
    """Raise ConfigError where nobody means the default: ``text`` of a cut file may name none."""
    default = Config().upstream
    if wanted.upstreams or wanted.upstream != default or running.upstream == default:
        return
    if text is None or "upstream" not in tomllib.loads(text):
        raise ConfigError(
            f"{file} names no upstream any more. If it is whole, and the default is meant, write "
            "upstream there"
        )


def summary(
    running: Config, wanted: Config, plugins: Iterable[str] = (), outdated: Iterable[str] = ()
) -> str:
    """Return one line on what a reload changes: names only, since values may be secrets.

    ``plugins``: those that are new, or were read from another text than before. ``outdated``: those
    of which another version is installed by now, or none.
    """
    changed = [
        field.name
        for field in msgspec.structs.fields(Config)
        if getattr(running, field.name) != getattr(wanted, field.name)
    ]
    now = [name for name in changed if name not in NEED_A_RESTART]
    now += [f"plugin {name}" for name in plugins]
    later = [name for name in changed if name in NEED_A_RESTART]
    later += [f"plugin {name}" for name in outdated]
    line = f"reloaded: {', '.join(now)} changed" if now else "reloaded: nothing changed"
    if later:
        line += f"; {', '.join(later)} {'needs' if len(later) == 1 else 'need'} a restart"
    return line
