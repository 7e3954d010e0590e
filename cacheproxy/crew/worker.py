"""One worker: a process that the keeper starts (``cacheproxy.crew.process``), and nobody else.

It listens on descriptor 3, and talks with the keeper on descriptor 4. Signals that a terminal or a
service manager sends to everybody at once do not end it: the keeper says when it is time. Without
a keeper it finishes what is open, and ends.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import (
    ILogObserver,
    Logger,
    LogLevel,
    formatEvent,
    globalLogBeginner,
)
from zope.interface import implementer

from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.rules.failures import Count, Failures
from cacheproxy.crew.asking import AskedMemory, AskedSpellings, lane_out
from cacheproxy.crew.frames import Load
from cacheproxy.crew.line import Line
from cacheproxy.crew.messages import (
    Adopt,
    Answer,
    Begin,
    Ended,
    Fewest,
    Forget,
    FromKeeper,
    Hurry,
    Prepare,
    Ready,
    Said,
    Standing,
    Stop,
    Stopping,
    Unfit,
)
from cacheproxy.crew.pages import Pages
from cacheproxy.crew.port import adopt_port
from cacheproxy.crew.wire import config_in, exchange_out, text_out
from cacheproxy.daemon.wiring import Arrangement, Relaying
from cacheproxy.observe.log_redaction import bare
from cacheproxy.observe.prefills import Prefills
from cacheproxy.proxy.downstream.draining import Draining
from cacheproxy.proxy.downstream.site import ProxySite

LISTENING = 3
"""The descriptor of the socket that is listened on."""
LINE = 4
"""The descriptor of the line to the keeper."""
_log = Logger()
_TELL_EVERY = 0.25
"""Seconds between two looks at whether there is something new to say of ourselves."""
_PAUSE = 0.0002
_LONGEST_PAUSE = 0.001
"""Seconds that others may have to take a connection, for each that we have more. Of 32 made at
once one of two workers had 16 to 32 without it, as often as not all; with it 16 or 17."""
_NEWS = 8
"""Connections more than others had, as far as we know, that are worth to be told of at once."""
_OURS = "cacheproxy."
_PRINTED = ("stdout", "stderr")
_LAST_WORDS = 2.0
"""Seconds that the keeper may take to read our last words."""


class Worker:
    """What the keeper says, done. ``put_together`` is given us, and returns what arranges."""

    def __init__(
        self,
        reactor: Any,
        line: socket.socket,
        listening: int,
        put_together: Callable[[Worker, Begin], tuple[Relaying, Callable[[Any], Arrangement]]],
    ) -> None:
        self.reactor = reactor
        self.line = Line(reactor, line, FromKeeper, self)
        self.pages = Pages(self.line, reactor)
        self.failures = ToldFailures(self._look)
        self._listening = listening
        self._put_together = put_together
        self._relaying: Relaying | None = None
        self._arrange: Callable[[Any], Arrangement] | None = None
        self._arrangement: Arrangement | None = None
        self._prepared: tuple[bytes, Arrangement] | None = None
        self._site: ProxySite | None = None
        self._port: Any = None
        self._draining: Draining | None = None
        self._hurried = False
        self._stopping = False
        self._dropped = 0
        self._forget_again = 0.0
        self._fewest = 0
        self._told = Standing(0, 0, {}, 0)

    def start(self) -> None:
        """Wait for the keeper's first word."""
        self.line.start()

    def finished(self, exchange: Exchange) -> None:
        """Tell the keeper of an exchange that is over, unless it cannot keep up."""
        session = exchange.session
        lane = lane_out(session, exchange.received) if exchange.turn and session else None
        message, load = exchange_out(exchange, lane)
        if not self.line.offer(message, *load):
            self._dropped += 1

    def forgot(self) -> None:
        """Tell the others that the upstream was down: not with each request that found it so."""
        now = self.reactor.seconds()
        if now >= self._forget_again:
            self._forget_again = now + _TELL_EVERY
            self.line.tell(Forget())

    def say(self, level: str, namespace: str, text: str) -> None:
        """Put a line into the keeper's log."""
        self.line.offer(Said(level, namespace, text_out(text)))

    def heard(self, line: Line, message: FromKeeper, load: Load) -> None:  # noqa: ARG002
        """Do what the keeper says."""
        if isinstance(message, Begin):
            try:
                self._begin(message)
            except Exception as error:
                self.line.tell(Unfit(text_out(f"{type(error).__name__}: {error}")))
                self.stop()
        elif isinstance(message, Prepare):
            self._prepare(message)
        elif isinstance(message, Adopt):
            self._adopt_settings(message.config)
        elif isinstance(message, Fewest):
            self._fewest = message.connections
        elif isinstance(message, Forget) and self._arrangement is not None:
            self._arrangement.forget()
        elif isinstance(message, Stop):
            self.stop(message.grace)
        elif isinstance(message, Hurry):
            self._hurried = True
            if self._draining is not None:
                self._draining.hurry()

    def lost(self, line: Line) -> None:  # noqa: ARG002
        """The keeper is gone: what is open may finish, if its time is not over."""
        self.stop()

    def stop(self, grace: float | None = None) -> None:
        """Listen no more, let open answers finish, and end."""
        if self._stopping:
            return
        self._stopping = True
        if grace is None:
            grace = self._arrangement.config.grace if self._arrangement is not None else 0.0
        done = Deferred.fromCoroutine(self._end(grace))
        done.addErrback(lambda failure: _log.failure("a worker did not end in order", failure))
        done.addBoth(lambda _: self._leave())

    def _begin(self, begin: Begin) -> None:
        self._relaying, self._arrange = self._put_together(self, begin)
        arrangement = self._arrange(config_in(begin.config))
        self._site = ProxySite(
            arrangement.resource, self.reactor, arrangement.limits, arrangement.access
        )
        self._draining = Draining(self._site, self.reactor)
        self._adopt(arrangement)
        self._port = adopt_port(self.reactor, self._listening, self._site, self._politeness)
        self.line.tell(Ready())
        self._tell_on()

    def _prepare(self, asked: Prepare) -> None:
        arrange = self._arrange
        assert arrange is not None

        def ready(arrangement: Arrangement) -> None:
            self._prepared = asked.config, arrangement
            self.line.tell(Answer(asked.id, ""))

        def not_ready(failure: Any) -> None:
            kind = failure.type.__name__
            self.line.tell(Answer(asked.id, text_out(f"{kind}: {failure.getErrorMessage()}")))

        pool = self.reactor.getThreadPool()
        work = partial(arrange, config_in(asked.config))
        deferToThreadPool(self.reactor, pool, work).addCallbacks(ready, not_ready)

    def _adopt_settings(self, config: bytes) -> None:
        """They were prepared, unless we were started just between the two."""
        if self._arrange is None or self._stopping:
            return
        known, self._prepared = self._prepared, None
        if known is None or known[0] != config:
            self._adopt(self._arrange(config_in(config)))
        else:
            self._adopt(known[1])

    def _adopt(self, arrangement: Arrangement) -> None:
        assert self._site is not None
        assert self._relaying is not None
        self._arrangement = arrangement
        self._site.adopt(arrangement.resource, arrangement.limits, arrangement.access)
        self._relaying.keep_what_is_needed(arrangement)

    async def _end(self, grace: float) -> None:
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)
        if self._draining is None:
            return
        waiting = self._draining.begin(without=self.pages.open)
        self.line.tell(Stopping(waiting))
        if self._hurried:
            self._draining.hurry()
        broken_off = await self._draining.finish(grace)
        self._look()
        self.line.tell(Ended(broken_off))
        last = self.line.when_empty()
        last.addTimeout(_LAST_WORDS, self.reactor)
        await last.addErrback(lambda _: None)

    def _leave(self) -> None:
        self.line.close()
        self.reactor.stop()

    def _politeness(self) -> float:
        """How long the others may have to take the next connection, if they have fewer."""
        assert self._site is not None
        more = len(self._site.channels) - self._fewest
        if more >= _NEWS:
            self._look()
        return min(_LONGEST_PAUSE, more * _PAUSE) if more > 0 else 0.0

    def _tell_on(self) -> None:
        self._look()
        if self.line.is_open:
            self.reactor.callLater(_TELL_EVERY, self._tell_on)

    def _look(self) -> None:
        """Tell how it stands with us, if that is new."""
        channels = self._site.channels if self._site is not None else ()
        busy = sum(1 for channel in channels if channel.requests)
        streams = max(0, busy - self.pages.open)
        failures = {text_out(name): count for name, count in self.failures.as_dict().items()}
        now = Standing(len(channels), streams, failures, self._dropped)
        if now != self._told:
            self._told = now
            self.line.tell(now)


class ToldFailures(Failures):
    """Failures that somebody is told of: ``changed`` is called in the reactor's next turn."""

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__()
        self._changed = changed
        self.reactor: Any = None

    def of(self, name: str) -> Count:
        """Return the count of ``name``: whoever asks is about to raise it."""
        if self.reactor is not None:
            self.reactor.callLater(0, self._changed)
        return super().of(name)


@implementer(ILogObserver)
class LogToKeeper:
    """Sends log lines to the keeper: ours, and from others what went wrong."""

    def __init__(self, say: Callable[[str, str, str], None], reactor: Any) -> None:
        self._say = say
        self._reactor = reactor

    def __call__(self, event: Any) -> None:
        """Send one line, from whatever thread."""
        level = event.get("log_level", LogLevel.info)
        namespace = str(event.get("log_namespace", ""))
        ours = namespace.startswith(_OURS) or namespace in _PRINTED
        if not ours and level < LogLevel.warn:
            return
        text = formatEvent(event)
        failure = event.get("log_failure")
        if failure is not None:
            trace = bare(failure).getTraceback(elideFrameworkCode=True, detail="brief")
            text = f"{text}\n{trace}"
        self._reactor.callFromThread(self._say, level.name, namespace, text)


def put_together(worker: Worker, begin: Begin) -> tuple[Relaying, Callable[[Any], Arrangement]]:
    """Return what lasts in ``worker``, and what makes arrangements with it."""
    from cacheproxy import tap  # noqa: PLC0415 - the whole program

    tap.set_up_process(worker.reactor)
    config = config_in(begin.config)
    worker.failures.reactor = worker.reactor
    plugins = tap.load_plugins(worker.reactor, config, worker.failures)
    line = worker.line
    spellings = AskedSpellings(line)
    relaying = Relaying(
        reactor=worker.reactor,
        plugins=plugins,
        memory=AskedMemory(line, begin.number),
        spellings=spellings,
        finished=worker.finished,
        via=begin.via,
        keep_bodies=bool(config.capture),
        progressed=Prefills(),
        collector=Collector(),
        learn=spellings.learn,
        forgot=worker.forgot,
    )
    return relaying, partial(tap.arrange_relaying, relaying, pages=lambda *_: worker.pages)


def main(reactor_module: str) -> None:
    """Be a worker until there is nothing left to do. ``reactor_module`` installs the reactor."""
    importlib.import_module(reactor_module).install()
    from twisted.internet import reactor  # noqa: PLC0415 - just installed

    running: Any = reactor
    worker = Worker(running, socket.socket(fileno=LINE), LISTENING, put_together)
    observer = LogToKeeper(worker.say, running)
    globalLogBeginner.beginLoggingTo([observer])
    signal.signal(signal.SIGTERM, lambda *_: running.callFromThread(worker.stop))
    for descriptor in (LISTENING, LINE):
        os.set_inheritable(descriptor, False)
    running.callWhenRunning(worker.start)
    running.run(installSignalHandlers=False)
