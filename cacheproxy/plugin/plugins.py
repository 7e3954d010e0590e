"""The plugins of a running proxy, and all who look at its exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import blockingCallFromThread
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
        self._reactor = reactor
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

    def reread(self, files: Sequence[str], block: Sequence[str] = ()) -> Packages:
        """Return the packages in force with ``files`` as they are now; raises PluginError.

        Nothing changes: see ``adopt``. May be called in any thread.
        """
        return self.packages.with_files(files, block)

    def adopt(self, packages: Packages) -> list[str]:
        """Put ``packages`` in force, and return the names of those that are not what they were.

        What was loaded anew may be late again; what is gone sees what waits for it, no more.
        """
        before = {package.name: package for package in self.packages}
        now = {package.name: package for package in packages}
        changed = [
            name
            for name in sorted(before.keys() | now.keys())
            if _hooks(before.get(name)) is not _hooks(now.get(name))
        ]
        self.packages = packages
        for name in changed:
            observer = self._observers.pop(name, None)
            if observer is not None:
                observer.finish()
            package = now.get(name)
            if package is not None and package.hooks is not None:
                self._begin(package, package.hooks)
        self._see()
        return changed

    def _begin(self, package: Package, hooks: Hooks) -> None:
        hook_names = (f"{package.name}: {hook}" for hook in hooks.names)
        for counted in (*hook_names, *(rule.name for rule in package.rules)):
            self.workers.forgive(counted)
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

    def stop(self) -> None:
        """Let others' observers see what waits. Blocks: not for the reactor's thread."""
        finish: Callable[[], Any] = self.finish
        blockingCallFromThread(self._reactor, finish)

    def finish(self) -> Deferred[None]:
        """Fire when others' observers have seen what waits, after a few seconds at most."""
        each = [observer.finish() for observer in self._observers.values()]
        waiting = gatherResults(each, consumeErrors=True)
        waiting.addTimeout(_STOP_SECONDS, self._reactor)
        return waiting.addBoth(lambda _: None)


def _hooks(package: Package | None) -> Hooks | None:
    return None if package is None else package.hooks
