"""All plugins of a running proxy, ours and others', in one PluginManager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import pluggy
from twisted.internet.defer import Deferred, gatherResults

from cacheproxy import hookspecs
from cacheproxy.plugin import servers
from cacheproxy.plugin.hooks import PluginError, called, hooks_of
from cacheproxy.plugin.observers import Observer
from cacheproxy.plugin.packages import Packages
from cacheproxy.proxy.exchange.workers import Workers
from cacheproxy.record.exchange import Exchange

_FINISHED = "cacheproxy_exchange_finished"
_STOP_SECONDS = 3.0


class Plugins:
    """What lasts as long as the process, whatever its plugins become.

    ``manager``: all that are registered. ``packages``: those of others that are in force.
    ``reactor``: None where no proxy runs. ``workers`` calls their code; ``failures``: what went
    wrong with it.

    Each implementation is called by itself: in a pluggy call one that raises would end it for all.
    Nor by a ``subset_hook_caller``, which has what is registered when it is called: one that is
    gone would not see what waits for it.
    """

    def __init__(self, reactor: Any = None) -> None:
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.packages = Packages()
        self.workers = Workers(reactor)
        self.failures = self.workers.failures
        self.reactor = reactor
        self._observers: dict[str, Observer] = {}
        self._seeing: list[Callable[[Sequence[Exchange]], object]] = []

    def register(self, plugin: object, name: str) -> None:
        """Register one of ours (an object with hookimpls) under ``name``.

        Raises PluginError if it implements no hook, or one that does not exist or has other
        arguments, or if the name is taken; nothing is registered then.
        """
        hooks_of(plugin)
        if self.manager.has_plugin(name):
            raise PluginError(f"the name {name!r} is taken")
        self.manager.register(plugin, name)
        self._see()

    def adopt(self, packages: Packages) -> list[str]:
        """Put ``packages`` in force, and return the names of those that are not what they were.

        What is gone sees what waits for it, no more.
        """
        before = {package.name: package.plugin for package in self.packages if package.hooks}
        now = {package.name: package.plugin for package in packages if package.hooks}
        names = sorted(before.keys() | now.keys())
        changed = [name for name in names if before.get(name) is not now.get(name)]
        self.packages = packages
        for name in filter(before.__contains__, changed):
            self.manager.unregister(name=name)
            if name in self._observers:
                self._observers.pop(name).finish()
        for name in filter(now.__contains__, changed):
            self.manager.register(now[name], name)
        servers.put_in_force(packages, self.workers.failed)
        self._see()
        return changed

    def _see(self) -> None:
        """Have those that are registered see what finishes, in the order of their names."""
        self._seeing = []
        hooks = getattr(self.manager.hook, _FINISHED).get_hookimpls()
        for hook in sorted(hooks, key=attrgetter("plugin_name")):
            name, see = f"{hook.plugin_name}: {_FINISHED}", called(_FINISHED, hook.function)
            if getattr(see, "quick", False) is True:
                self._seeing.append(partial(self.workers.call, name, see))
                continue
            if hook.plugin_name not in self._observers:
                self._observers[hook.plugin_name] = Observer(name, see, self.workers)
            self._seeing.append(self._observers[hook.plugin_name].put)

    def finished(self, exchanges: Sequence[Exchange]) -> None:
        """Show finished exchanges to every observer: at once if it is quick, else in a thread."""
        for see in self._seeing:
            see(exchanges)

    def finish(self) -> Deferred[None]:
        """Fire when observers in threads have seen what waits, after a few seconds at most."""
        each = [observer.finish() for observer in self._observers.values()]
        waiting = gatherResults(each, consumeErrors=True)
        waiting.addTimeout(_STOP_SECONDS, self.reactor)
        return waiting.addBoth(lambda _: None)
