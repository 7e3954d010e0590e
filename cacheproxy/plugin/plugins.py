"""All plugins of a running proxy, ours and others', in one PluginManager."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import pluggy
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy import hookspecs
from cacheproxy.plugin import servers
from cacheproxy.plugin.hooks import PluginError, called, hooks_of
from cacheproxy.plugin.packages import Packages
from cacheproxy.proxy.exchange.workers import LeftOutError, Workers
from cacheproxy.record.exchange import Exchange

_FINISHED = "cacheproxy_exchange_finished"
_STOP_SECONDS = 3.0
_log = Logger()
_SECONDS = 10.0
"""The deadline for one call: an observer may well write to a slow disk or a database."""
_TOGETHER = 32
"""Exchanges that it is shown in one call, at most."""


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


class Observer:
    """One plugin's observer. ``see`` is called in a thread; all methods are for the reactor's.

    ``name``: what it is called in the log. ``most``: exchanges that may wait for it;
    ``most_bytes``: those of their bodies.
    """

    def __init__(
        self,
        name: str,
        see: Callable[[Sequence[Exchange]], object],
        workers: Workers,
        *,
        most: int = 1000,
        most_bytes: int = 32 << 20,
    ) -> None:
        self.name = name
        self._see = see
        self._workers = workers
        self._most = most
        self._most_bytes = most_bytes
        self._queue: deque[Exchange] = deque()
        self._waiting = 0
        self._is_seeing = False
        self._is_dropping = False
        self._is_closed = False
        self._idle: list[Deferred[None]] = []

    @property
    def waiting(self) -> int:
        """Return how many exchanges wait to be seen."""
        return len(self._queue)

    @property
    def is_busy(self) -> bool:
        """Tell whether the plugin is being called."""
        return self._is_seeing

    def put(self, exchanges: Sequence[Exchange]) -> None:
        """Let the observer see ``exchanges`` with JSON of its own, or drop them. Never waits."""
        for exchange in () if self._is_closed else exchanges:
            size = exchange.size
            if self._queue and (
                len(self._queue) >= self._most or self._waiting + size > self._most_bytes
            ):
                self._drop()
                continue
            self._is_dropping = self._is_dropping and bool(self._queue)
            self._waiting += size
            self._queue.append(exchange.unread())
        if not self._is_seeing:
            self._next()

    def finish(self) -> Deferred[None]:
        """Take no more; fire when all that waits has been seen. Cancelled, it is dropped."""
        self._is_closed = True
        done: Deferred[None] = Deferred(lambda _: self._give_up())
        self._idle.append(done)
        if not self._is_seeing:
            self._next()
        return done

    def _next(self) -> None:
        if not self._queue:
            waiting, self._idle = self._idle, []
            for done in waiting:
                done.callback(None)
            return
        self._is_seeing = True
        count = min(len(self._queue), _TOGETHER)
        exchanges = [self._queue.popleft() for _ in range(count)]
        size = sum(exchange.size for exchange in exchanges)

        def see() -> None:  # what it returns may be a Deferred, and is nobody's
            self._see(exchanges)

        call = self._workers.run(self.name, see, _SECONDS)
        call.addBoth(self._seen, size)

    def _seen(self, result: object, size: int) -> None:
        self._is_seeing = False
        self._waiting -= size
        if isinstance(result, Failure) and result.value is not None:
            self._workers.failed(self.name, result.value)
            if isinstance(result.value, LeftOutError):
                self._queue.clear()
                self._waiting = 0
        self._next()

    def _drop(self) -> None:
        """Count, and tell of the first until it has caught up."""
        self._workers.failures.of(self.name).dropped += 1
        if not self._is_dropping:
            self._is_dropping = True
            _log.warn(
                "plugin {name} is too slow: it gets no more exchanges until it has caught up; "
                "the requests themselves go on",
                name=self.name,
            )

    def _give_up(self) -> None:
        left = len(self._queue)
        self._queue.clear()
        self._idle.clear()
        if left:
            self._workers.failures.of(self.name).dropped += left
            _log.warn(
                "plugin {name} was too slow: it did not get {left} exchanges",
                name=self.name,
                left=left,
            )
