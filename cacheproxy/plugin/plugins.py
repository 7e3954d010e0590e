"""Plugins: all plugins of a running proxy, ours and others', in one PluginManager."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import pluggy
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from cacheproxy import hookspecs
from cacheproxy.plugin.package import PluginError, called, hooks_of, put_in_force
from cacheproxy.plugin.packages import Packages
from cacheproxy.proxy.exchange.workers import LeftOutError, Workers
from cacheproxy.record.exchange import Exchange

_FINISHED = "cacheproxy_exchange_finished"
_STOP_SECONDS = 3.0
_log = Logger()
_SECONDS = 10.0
"""Seconds for one call: an observer may well write to a slow disk or a database."""
_TOGETHER = 32
"""Exchanges that an observer gets in one call, at most."""


class Plugins:
    """The plugins of the process, which outlives any set of them.

    ``manager``: all registered plugins. ``packages``: others' plugins in force. ``reactor``: None
    without a running proxy. ``workers`` calls others' code; ``failures`` counts what it raised.

    Each hook implementation is called by itself, and not through pluggy: there, one that raises
    would end the call for all. A ``subset_hook_caller`` would not do either: it calls the plugins
    registered at that moment, and one just removed would miss the exchanges that wait for it.
    """

    def __init__(self, reactor: Any = None) -> None:
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.packages = Packages()
        self.workers = Workers(reactor)
        self.failures = self.workers.failures
        self.reactor = reactor
        self._observers: dict[str, Observer] = {}
        self._seeing: list[tuple[str, Callable[[Sequence[Exchange]], object]]] = []

    def register(self, plugin: object, name: str) -> None:
        """Register one of our own plugins, an object with hookimpls, under ``name``.

        Raises PluginError, and registers nothing, if it implements no hook, an unknown hook or one
        with wrong arguments, or if the name is taken.
        """
        hooks_of(plugin)
        if self.manager.has_plugin(name):
            raise PluginError(f"the name {name!r} is taken")
        self.manager.register(plugin, name)
        self._see()

    def adopt(self, packages: Packages) -> list[str]:
        """Put ``packages`` in force; return the names of those that are new or have changed.

        A removed plugin still sees the exchanges that wait for it, and no others.
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
        put_in_force(packages, self.workers.failed)
        self._see()
        return changed

    def _see(self) -> None:
        """Call the registered observers for finished exchanges, in the order of their names."""
        self._seeing = []
        hooks = getattr(self.manager.hook, _FINISHED).get_hookimpls()
        for hook in sorted(hooks, key=attrgetter("plugin_name")):
            name, see = f"{hook.plugin_name}: {_FINISHED}", called(_FINISHED, hook.function)
            if getattr(see, "quick", False) is True:
                self._seeing.append((name, see))
                continue
            if hook.plugin_name not in self._observers:
                self._observers[hook.plugin_name] = Observer(name, see, self.workers)
            self._seeing.append((name, self._observers[hook.plugin_name].put))

    def finished(self, exchanges: Sequence[Exchange]) -> None:
        """Show finished exchanges to every observer: at once if it is quick, else in a thread."""
        for name, see in self._seeing:
            try:
                see(exchanges)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # no failure of one observer may reach another
                self.workers.failed(name, error)

    def finish(self) -> Deferred[None]:
        """Return a Deferred that fires when threaded observers are done, or a few seconds later."""
        each = [observer.finish() for observer in self._observers.values()]
        waiting = gatherResults(each, consumeErrors=True)
        waiting.addTimeout(_STOP_SECONDS, self.reactor)
        return waiting.addBoth(lambda _: None)


@dataclass(eq=False)
class Observer:
    """One plugin's observer: ``see`` runs in a thread, all methods on the reactor's thread."""

    name: str  #: its name in the log
    see: Callable[[Sequence[Exchange]], object]  #: the plugin's hook
    workers: Workers  #: the threads that call it
    most: int = 1000  #: exchanges that may wait for it
    most_bytes: int = 32 << 20  #: bytes of waiting bodies
    waiting: deque[Exchange] = field(default_factory=deque)  #: exchanges that it has not seen
    is_busy: bool = False  #: whether it is being called
    _bytes: int = 0  #: bytes of the bodies that wait or are being shown
    _is_dropping: bool = False  #: whether it drops exchanges, which was logged
    _is_closed: bool = False  #: whether it takes no more
    _idle: list[Deferred[None]] = field(default_factory=list)  #: fired when nothing waits

    def put(self, exchanges: Sequence[Exchange]) -> None:
        """Queue ``exchanges``, with parsed JSON of their own, or drop them; never waits."""
        for exchange in () if self._is_closed else exchanges:
            after = self._bytes + exchange.size
            if self.waiting and (len(self.waiting) >= self.most or after > self.most_bytes):
                self._drop()
                continue
            self._is_dropping = self._is_dropping and bool(self.waiting)
            self._bytes = after
            self.waiting.append(exchange.unread())
        if not self.is_busy:
            Deferred.fromCoroutine(self._show_all())

    def finish(self) -> Deferred[None]:
        """Take no more; the Deferred fires when all waiting exchanges were seen.

        Cancelling it drops them.
        """
        self._is_closed = True
        done: Deferred[None] = Deferred(lambda _: self._give_up())
        self._idle.append(done)
        if not self.is_busy:
            Deferred.fromCoroutine(self._show_all())
        return done

    async def _show_all(self) -> None:
        self.is_busy = True
        while self.waiting:
            count = min(len(self.waiting), _TOGETHER)
            exchanges = [self.waiting.popleft() for _ in range(count)]
            size = sum(exchange.size for exchange in exchanges)
            try:
                await self.workers.run(self.name, partial(self._show, exchanges), _SECONDS)
            except BaseException as error:  # whatever its class
                self.workers.failed(self.name, error)
                if isinstance(error, LeftOutError):
                    self.waiting.clear()
            self._bytes = self._bytes - size if self.waiting else 0
        self.is_busy = False
        idle, self._idle = self._idle, []
        for done in idle:
            done.callback(None)

    def _show(self, exchanges: Sequence[Exchange]) -> None:
        self.see(exchanges)  # its result, perhaps a Deferred, is ignored

    def _drop(self) -> None:
        """Count dropped exchanges; log the first, and then none until it has caught up."""
        self.workers.failures.of(self.name).dropped += 1
        if not self._is_dropping:
            self._is_dropping = True
            _log.warn(
                "plugin {name} is too slow: it gets no more exchanges until it has caught up; "
                "the requests themselves go on",
                name=self.name,
            )

    def _give_up(self) -> None:
        left = len(self.waiting)
        self.waiting.clear()
        self._idle.clear()
        if left:
            self.workers.failures.of(self.name).dropped += left
            said = f"was too slow: it did not get {left} exchanges"
            _log.warn("plugin {name} {said}", name=self.name, said=said)
