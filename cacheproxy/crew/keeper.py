"""The keeper of several workers: it holds the listening socket, all state, and nobody's traffic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.logger import Logger, LogLevel
from twisted.web.resource import Resource

from cacheproxy.config import Config, ConfigError
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.privacy.access import Access
from cacheproxy.crew.frames import Load
from cacheproxy.crew.line import Line
from cacheproxy.crew.member import Member
from cacheproxy.crew.messages import (
    Adopt,
    Answer,
    Begin,
    Fewest,
    Finished,
    Forget,
    FromWorker,
    HowSpelled,
    Hurry,
    Lane,
    Page,
    Prepare,
    Recall,
    Said,
    Sent,
    Spelled,
    Standing,
    Stop,
)
from cacheproxy.crew.pages import adopt_connection
from cacheproxy.crew.rereading import Rereading
from cacheproxy.crew.shared import Known, LastRequests, Turns
from cacheproxy.crew.wire import config_out, exchange_in, request_in, request_out, text_in, text_out
from cacheproxy.daemon.wiring import Arrangement, Relaying
from cacheproxy.proxy.downstream.draining import tell_broken_off, tell_stopping
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite

_log = Logger()
_PREPARE_SECONDS = 30.0
_CLOSE_SECONDS = 2.0
"""How long workers may take to listen no more: it takes a turn of their reactors."""
_LATE_SECONDS = 3.0
"""How long workers may take beyond the grace."""


class _Open:
    """A connection of a worker's, as the metrics page counts them."""

    def __init__(self, *, is_busy: bool) -> None:
        self.requests = (object(),) if is_busy else ()


class Crew:
    """Serves the listening socket with ``count`` workers; a front, as ``alone.Alone`` is one.

    ``relaying``: whom exchanges go to, and where what the workers learn comes together.
    """

    def __init__(
        self,
        reactor: Any,
        count: int,
        relaying: Relaying,
    ) -> None:
        self.site = ProxySite(Resource(), reactor, Limits(), Access())
        self.members = [Member(number, reactor, self) for number in range(1, count + 1)]
        self._reactor = reactor
        self._relaying = relaying
        self._spellings = relaying.spellings
        self._arrangement: Arrangement | None = None
        self._gave_up: Callable[[str], None] | None = None
        self._turns = Turns()
        self._last = LastRequests()
        self._questions: list[tuple[Line, Any]] = []
        self._finished: list[tuple[Exchange, Lane | None]] = []
        self._is_due = False
        self._fewest = 0
        self._rereading = Rereading()
        self._port: Any = None
        self._is_stopping = False
        self._has_begun = False
        self._waiting: list[tuple[Callable[[], bool], Deferred[None]]] = []
        self._broken_off = 0

    # A front

    def objection(self, port: Any) -> str | None:
        """Return what speaks against serving ``port``, which must not accept by itself."""
        if hasattr(port, "stopReading"):
            port.stopReading()
        if getattr(port, "factory", None) is not self.site:  # TLS, or something else around ours
            return (
                "several workers share a plain socket alone: leave --workers out, "
                "or put what speaks TLS in front"
            )
        return None

    def start(self, port: IListeningPort, gave_up: Callable[[str], None]) -> None:
        """Start the workers, once the reactor runs."""
        self._port, self._gave_up = port, gave_up
        self._reactor.callWhenRunning(self._start_all)

    async def ready(self) -> str | None:
        """Return when the workers listen that can, with a line that says who they are."""
        await self._wait(
            lambda: self._has_begun and all(m.is_ready or m.starts > 1 for m in self.members)
        )
        pids = ", ".join(str(member.pid) for member in self.members if member.pid)
        return f"  workers     {len(self.members)}: processes {pids}"

    async def prepare(self, config: Config) -> None:
        """Have the workers see whether they can do with ``config``; raises ConfigError."""
        question = Prepare(config_out(config))
        asked = [
            member.line.ask(question, seconds=_PREPARE_SECONDS)
            for member in self.members
            if member.line is not None
        ]
        for answer in asked:
            answer.addErrback(lambda _: (b"", b""))  # gone: the next one begins with what counts
        for value, _ in await gatherResults(asked):
            if value:
                raise ConfigError(f"a worker cannot do with these settings: {text_in(value)}")

    def adopt(self, arrangement: Arrangement) -> None:
        """Have what begins from now on go by ``arrangement``, here and in the workers."""
        self._arrangement = arrangement
        self.site.adopt(arrangement.resource, arrangement.limits, Access())
        config = config_out(arrangement.config)
        for member in self.members:
            member.tell(Adopt(config))

    def forget(self) -> None:
        """Have the workers ask the upstream again: another may have taken its place."""
        for member in self.members:
            member.tell(Forget())

    async def stop(self, grace: float) -> int:
        """Listen no more, let open answers finish; return how many were broken off."""
        self._is_stopping = True
        for member in self.members:
            member.is_stopping = True
            member.tell(Stop(grace))
        await self._wait(
            lambda: all(m.is_over or m.waiting is not None for m in self.members), _CLOSE_SECONDS
        )
        await maybeDeferred(self._port.stopListening)
        tell_stopping(sum(member.waiting or 0 for member in self.members), grace)
        await self._wait(lambda: all(m.is_over for m in self.members), grace + _LATE_SECONDS)
        for member in self.members:
            if not member.is_over:
                self._broken_off += 1
                member.kill()
        await self._wait(lambda: all(m.is_over for m in self.members), _CLOSE_SECONDS)
        self._settle()
        tell_broken_off(self._broken_off)
        return self._broken_off

    def hurry(self) -> None:
        """Wait no longer."""
        for member in self.members:
            member.tell(Hurry())

    # For pages

    def channels(self) -> list[_Open]:
        """Return all connections, as far as they are known: they are a quarter second old."""
        found: list[_Open] = []
        for member in self.members:
            now = member.standing
            found += [_Open(is_busy=True) for _ in range(now.streams)]
            found += [_Open(is_busy=False) for _ in range(now.connections - now.streams)]
        return found

    def standing(self) -> list[dict[str, int]]:
        """Return how it stands with each worker."""
        return [
            {
                "worker": member.number,
                "pid": member.pid,
                "connections": member.standing.connections,
                "exchanges": member.exchanges,
            }
            for member in self.members
        ]

    # What members tell

    def first_words(self, number: int) -> Begin:
        """Return what a new worker is told."""
        assert self._arrangement is not None
        return Begin(number, config_out(self._arrangement.config), self._relaying.via)

    def changed(self, member: Member) -> None:
        """See who waits for this."""
        if member.is_ready and not self._has_begun:
            self._has_begun = True
            for each in self.members:
                if each.is_over:
                    each.start_again()
        for waiting in tuple(self._waiting):
            condition, done = waiting
            if condition():
                self._waiting.remove(waiting)
                done.callback(None)

    def over(self, member: Member, how: str) -> None:
        """Take note that a worker has ended, and start another: but not before one could begin."""
        self._broken_off += member.broken_off or 0
        self._stand(member, Standing(0, 0, {}, 0))
        why = f": {member.why}" if member.why else ""
        if self._is_stopping:
            pass
        elif self._has_begun:
            _log.warn(
                "worker {number} {how}{why}; another takes its place",
                number=member.number,
                how=how,
                why=why,
            )
            member.start_again()
        elif all(each.is_over for each in self.members):
            self._is_stopping = True
            assert self._gave_up is not None
            self._gave_up(f"no worker could be started: it {how}{why}")
        self.changed(member)

    def heard(self, member: Member, message: FromWorker, load: Load) -> None:
        """Do what a worker asks for."""
        line = member.line
        assert line is not None
        if isinstance(message, Finished):
            member.exchanges += 1
            self._soon()
            self._finished.append((exchange_in(message, load), message.lane))
        elif isinstance(message, Said):
            _say(message)
        elif isinstance(message, Standing):
            self._stand(member, message)
        elif isinstance(message, Page):
            self._page(line)
        elif isinstance(message, Sent):
            request = request_in(message.request, load)
            self._last.put(message.lane, Known(message.version, request))
        elif isinstance(message, Spelled):
            self._spellings.keep(text_in(message.call), text_in(message.arguments))
        elif isinstance(message, Forget):
            self._forget(member)
        elif isinstance(message, Recall | HowSpelled):
            self._soon()
            self._questions.append((line, message))

    # Ours

    def _start_all(self) -> None:
        for member in self.members:
            if not self._is_stopping:
                member.start(self._port.fileno())

    def _finish(self, exchange: Exchange, lane: Lane | None) -> None:
        if lane is not None:
            exchange = exchange.changed(turn=self._turns.next(lane))
        self._rereading.prepare(exchange)
        self._relaying.finished(exchange)

    def _stand(self, member: Member, now: Standing) -> None:
        """Add what is new to the sums. A worker that is started anew begins with nothing."""
        before, member.standing = member.standing, now
        if now.dropped > before.dropped == 0:
            _log.warn(
                "the keeper is too slow for worker {number}: exchanges are dropped from its "
                "records; the requests themselves go on",
                number=member.number,
            )
        self._tell_fewest()
        failures = self._relaying.plugins.failures
        for said, counts in now.failures.items():
            total, old = failures.of(text_in(said)), before.failures.get(said, {})
            for kind in ("failed", "timed_out", "dropped"):
                setattr(total, kind, getattr(total, kind) + counts[kind] - old.get(kind, 0))
            total.left_out = total.left_out or bool(counts["left_out"])

    def _tell_fewest(self) -> None:
        """Let the workers know who should take the next connections."""
        ready = [member for member in self.members if member.is_ready]
        fewest = min((member.standing.connections for member in ready), default=0)
        if fewest != self._fewest:
            self._fewest = fewest
            for member in ready:
                member.tell(Fewest(fewest))

    def _page(self, line: Line) -> None:
        descriptor = line.descriptor()
        if descriptor is None:
            return
        try:
            adopt_connection(self._reactor, descriptor, self.site)
        except OSError as error:
            _log.warn("one of our own pages could not be shown: {why}", why=error.strerror)

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._reactor.callLater(0, self._settle)

    def _settle(self) -> None:
        """Take the exchanges that are over, and answer, once all that was said before is known.

        A worker tells what it learns before its client can come back, perhaps to another worker,
        and which of two turns came first the sockets do not say: so what waits in all of them is
        read, and exchanges are taken in the order in which they ended.
        """
        for member in self.members:
            if member.line is not None:
                member.line.read()
        self._is_due = False
        finished, self._finished = sorted(self._finished, key=_ended), []
        for exchange, lane in finished:
            self._finish(exchange, lane)
        questions, self._questions = self._questions, []
        for line, question in questions:
            if isinstance(question, Recall):
                self._recall(line, question)
            else:
                known = (self._spellings.kept(text_in(call)) for call in question.calls)
                found = [None if text is None else text_out(text) for text in known]
                line.tell(Answer(question.id, found))

    def _recall(self, line: Line, question: Recall) -> None:
        known = self._last.of(question.lane)
        request = known.request
        if request is None:
            line.tell(Answer(question.id))
        elif known.version == question.version:
            line.tell(Answer(question.id, (known.version, None)))
        else:
            line.tell(Answer(question.id, (known.version, request_out(request))), request.body)

    def _forget(self, member: Member) -> None:
        for other in self.members:
            if other is not member:
                other.tell(Forget())

    def _wait(self, condition: Callable[[], bool], seconds: float | None = None) -> Deferred[None]:
        """Fire when ``condition`` holds, or after ``seconds``."""
        done: Deferred[None] = Deferred()
        if condition():
            done.callback(None)
            return done
        waiting = (condition, done)
        self._waiting.append(waiting)
        if seconds is not None:
            timer = self._reactor.callLater(seconds, self._late, waiting)
            done.addCallback(lambda _: timer.cancel() if timer.active() else None)
        return done

    def _late(self, waiting: tuple[Callable[[], bool], Deferred[None]]) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            waiting[1].callback(None)


def _ended(finished: tuple[Exchange, Lane | None]) -> float:
    exchange, _ = finished
    return exchange.wall + exchange.seconds


def _say(message: Said) -> None:
    level = LogLevel.lookupByName(message.level)
    Logger(namespace=message.namespace).emit(level, "{text}", text=text_in(message.text))
