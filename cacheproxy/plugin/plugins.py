"""The plugins and observers of a running proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.rules.fold import kind_of
from cacheproxy.plugin.errors import PluginError
from cacheproxy.plugin.hooks import Hooks
from cacheproxy.plugin.observers import Observer
from cacheproxy.plugin.package import Package
from cacheproxy.plugin.packages import Packages
from cacheproxy.proxy.exchange.workers import Workers

_log = Logger()
_STOP_SECONDS = 3.0


class Plugins:
    """What lasts as long as the process, whatever its plugins become.

    ``packages``: those in force. ``reactor``: None where no proxy runs. ``workers``: threads for
    the code of packages. ``failures``: what went wrong with it. Both are for all who call plugins.
    """

    def __init__(self, reactor: Any = None) -> None:
        self.packages = Packages()
        self.failures = Failures()
        self.workers = Workers(reactor, self.failures)
        self.reactor = reactor
        self._ours: dict[str, Callable[[Exchange], object]] = {}
        self._observers: dict[str, Observer] = {}
        self._seeing: list[tuple[str, Callable[[Exchange], object]]] = []

    def register(self, plugin: Any, name: str) -> None:
        """Register an observer of our own (an object with hookimpls) under ``name``.

        Raises PluginError if it implements no hook, or one that does not exist or has other
        arguments, or if the name is taken; nothing is registered then.
        """
        hooks = Hooks(plugin, name)
        if name in self._ours:
            raise PluginError(f"the name {name!r} is taken")
        if hooks.finished is not None:
            self._ours[name] = plugin.cacheproxy_exchange_finished  # no pluggy call: it is slower
            self._see()

    def adopt(self, packages: Packages) -> list[str]:
        """Put ``packages`` in force, and return the names of those that are not what they were.

        What is gone sees what waits for it, no more.
        """
        before = {package.name: package.hooks for package in self.packages}
        now = {package.name: package.hooks for package in packages}
        names = sorted(before.keys() | now.keys())
        changed = [name for name in names if before.get(name) is not now.get(name)]
        self.packages = packages
        for name in changed:
            observer = self._observers.pop(name, None)
            if observer is not None:
                observer.finish()
        for package in packages:
            if package.name in changed and package.hooks is not None:
                self._begin(package, package.hooks)
        self._see()
        return changed

    def _begin(self, package: Package, hooks: Hooks) -> None:
        if hooks.finished is not None:
            observer = Observer(package.name, hooks.finished, self.workers, self.failures)
            self._observers[package.name] = observer

    def _see(self) -> None:
        others = {name: observer.put for name, observer in self._observers.items()}
        self._seeing = sorted({**self._ours, **others}.items())

    def finished(self, exchange: Exchange) -> None:
        """Show a finished exchange to every observer: our own at once, others in their threads."""
        for name, see in self._seeing:
            try:
                see(exchange)
            except Exception as error:  # one observer's failure is nobody else's
                self.failures.of(f"{name}: cacheproxy_exchange_finished").failed += 1
                _log.warn(
                    "plugin {plugin}: cacheproxy_exchange_finished raised {kind}",
                    plugin=name,
                    kind=kind_of(error),
                )

    def finish(self) -> Deferred[None]:
        """Fire when others' observers have seen what waits, after a few seconds at most."""
        each = [observer.finish() for observer in self._observers.values()]
        waiting = gatherResults(each, consumeErrors=True)
        waiting.addTimeout(_STOP_SECONDS, self.reactor)
        return waiting.addBoth(lambda _: None)
