"""Read the configuration again while the proxy runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from cacheproxy.config import Config, ConfigError
from cacheproxy.daemon.wiring import Arrangement
from cacheproxy.plugin.errors import PluginError
from cacheproxy.proxy.exchange.workers import NoThreadError, TookTooLongError, Workers
from cacheproxy.proxy.upstream.upstream import UpstreamURLError

_log = Logger()
_Adopt = Callable[[Arrangement], list[str]]
_NAME = "reload"
_SECONDS = 30.0
"""How long it may take: a plugin's file is run, and imports what it will."""
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


class Reloading:
    """Reads and arranges in a thread of ``workers``, then hands over on the reactor's.

    ``read`` returns what is configured now, ``arrange`` makes of it what is needed; ``running``
    is the configuration in force. What is wrong is one line, and changes nothing; so is a plugin's
    file that does not come to its end.
    """

    def __init__(
        self,
        workers: Workers,
        read: Callable[[], Config],
        arrange: Callable[[Config], Arrangement],
        running: Config,
    ) -> None:
        self._workers = workers
        self._read = read
        self._arrange = arrange
        self._running = running
        self._asked = False
        self._busy = False

    def ask(self, adopt: _Adopt) -> None:
        """Reload once, however often this is called meanwhile, and once more after that.

        ``adopt`` puts an arrangement in force and returns the names of the plugins that are not
        what they were, or raises ConfigError.
        """
        self._asked = True
        if not self._busy:
            self._busy = True
            done = Deferred.fromCoroutine(self._reload_while_asked(adopt))
            done.addErrback(lambda failure: _log.failure("the reload failed", failure))

    async def _reload_while_asked(self, adopt: _Adopt) -> None:
        try:
            while self._asked:
                self._asked = False
                await self._reload(adopt)
        finally:
            self._busy = False

    async def _reload(self, adopt: _Adopt) -> None:
        self._workers.forgive(_NAME)  # it was asked for, however late the last one was
        try:
            wanted, arrangement = await self._workers.run(_NAME, self._prepare, _SECONDS)
            plugins = adopt(arrangement)
        except (TookTooLongError, NoThreadError) as error:
            _log.warn("not reloaded, the settings stay as they were: it {error}", error=error)
            return
        except (ConfigError, PluginError, UpstreamURLError) as error:
            _log.warn("not reloaded, the settings stay as they were: {error}", error=error)
            return
        _log.info("{line}", line=summary(self._running, wanted, plugins))
        self._running = arrangement.config

    def _prepare(self) -> tuple[Config, Arrangement]:
        wanted = self._read()
        lasting = {name: getattr(self._running, name) for name in NEED_A_RESTART}
        return wanted, self._arrange(msgspec.structs.replace(wanted, **lasting))


def summary(running: Config, wanted: Config, plugins: Iterable[str] = ()) -> str:
    """Return one line on what a reload changes: names only, since values may be secrets.

    ``plugins``: those that were read from another text than before.
    """
    changed = [
        field.name
        for field in msgspec.structs.fields(Config)
        if getattr(running, field.name) != getattr(wanted, field.name)
    ]
    now = [name for name in changed if name not in NEED_A_RESTART]
    now += [f"plugin {name}" for name in plugins]
    later = [name for name in changed if name in NEED_A_RESTART]
    line = f"reloaded: {', '.join(now)} changed" if now else "reloaded: nothing changed"
    if later:
        line += f"; {', '.join(later)} {'needs' if len(later) == 1 else 'need'} a restart"
    return line
