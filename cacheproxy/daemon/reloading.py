"""Reload: reads the configuration again while the proxy runs."""

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
from cacheproxy.proxy.exchange.pool import Servers
from cacheproxy.proxy.exchange.workers import NoThreadError, TookTooLongError, Workers
from cacheproxy.proxy.resource import ProxyResource
from cacheproxy.proxy.upstream.upstream import UpstreamURLError
from cacheproxy.web.cures import ReloadError

_log = Logger()
_NAME = "reload"
_NOT = "settings not reloaded, the old ones stay in use"
_SECONDS = 30.0
"""Time limit of a reload: it runs the files of plugins, which may import anything."""
_SETTLED = 0.2
"""Seconds after which the file is read again to be sure that it was not half written."""
_READINGS = 10
"""Readings after which a file that changes all the time is taken as it is."""
_LOOKS = (0.5, 2.0, 8.0)
"""Seconds between a reload and each later look at whether the file has changed since."""
NEED_A_RESTART = ("port", "interface", "listen", "block", "capture", "state_dir", "poll", "otel")
"""Settings that a reload cannot change."""


@dataclass(frozen=True, slots=True)
class ConfigParts:
    """The parts made from one configuration; an exchange keeps those that it began with."""

    config: Config  #: the settings
    servers: Servers  #: the upstreams
    found: Configured  #: the plugins and the rules
    edits: bool  #: whether the rules apply to at least one upstream
    resource: ProxyResource  #: answers requests
    limits: Limits  #: of what clients may send
    access: Access  #: who may send requests


_Adopt = Callable[[ConfigParts], list[str]]


@dataclass(eq=False)
class Reloading:
    """Reloads: reads and arranges in a thread of ``workers``, then adopts on the reactor's.

    An error is one line in the log and changes nothing; a plugin's file that never returns counts
    as one. A file that changes while it is read is read again.
    """

    clock: Any  #: an IReactorTime
    workers: Workers  #: the threads that run plugins
    read: Callable[[str | None], Config]
    """Returns the configuration for the file's text, which is None if it cannot be read."""
    arrange: Callable[[Config], ConfigParts]  #: makes the parts of a configuration
    running: Config  #: the configuration in force
    file: str = ""  #: path of the config file, which need not exist
    _requests: list[Deferred[str]] = field(
        default_factory=list
    )  #: callers that wait for the next reload
    _busy: bool = False  #: whether a reload is under way
    _judged: str | None = None  #: the file's text at the last reload
    _looks: tuple[float, ...] = ()  #: seconds before each further look
    _later: IDelayedCall | None = None  #: the next look

    def ask(self, adopt: _Adopt, looks: tuple[float, ...] = _LOOKS) -> Deferred[str]:
        """Reload once, however often this is called meanwhile, and once more after that.

        ``adopt`` puts parts in force and returns the names of the plugins that have changed, or
        raises ConfigError. The Deferred fires with the logged line, or with a ReloadError that was
        logged as well. ``looks``: seconds before each later look at the file.
        """
        asked: Deferred[str] = Deferred()
        self._requests.append(asked)
        self._looks, later, self._later = looks, self._later, None
        if later is not None:
            later.cancel()
        if not self._busy:
            self._busy = True
            Deferred.fromCoroutine(self._reload_while_requested(adopt))
        return asked

    async def _reload_while_requested(self, adopt: _Adopt) -> None:
        try:
            while self._requests:
                asked, self._requests = self._requests, []
                said: str | Failure
                try:
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
                    said = line
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

    async def _settled(self) -> tuple[Config, ConfigParts]:
        """Return the configuration once the file has stopped changing; raises what is wrong."""
        for _ in range(_READINGS):
            self._judged, found = await self.workers.run(_NAME, self._prepare, _SECONDS)
            await deferLater(self.clock, _SETTLED)
            if await self.workers.run(_NAME, self._text, _SECONDS) == self._judged:
                if isinstance(found, Exception):
                    raise found
                return found
        raise ConfigError(f"{self.file} is still being written")

    def _prepare(self) -> tuple[str | None, tuple[Config, ConfigParts] | Exception]:
        """Return the file's text with its configuration and parts, or with the error in it."""
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
        """Return the file's text, None if it cannot be read."""
        try:
            return Path(self.file).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    # Looks after a reload, or after an error: a slow writer may not be done with the file.

    def _look_later(self, adopt: _Adopt) -> None:
        if self._looks and not self._requests:
            seconds, self._looks = self._looks[0], self._looks[1:]
            self._later = self.clock.callLater(seconds, self._look, adopt)

    def _look(self, adopt: _Adopt) -> None:
        """Reload if the file has changed since it was read; else plan the next look."""

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
    """Raise ConfigError if the file has lost its upstream: ``text`` may have been cut off.

    The default upstream, which would be used instead, is not what the user wants then.
    """
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
    """Return one line that names the settings that a reload changes; values may be secrets.

    ``plugins``: the names of new plugins, and of those whose text has changed. ``outdated``: the
    names of running plugins whose installed version is another now, or gone.
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
