"""The totals of one proxy: recording, queries, and the housekeeping in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, execute
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.core.kinds.status import Look, UpstreamState
from cacheproxy.record.columns import record_of
from cacheproxy.record.exchange import Exchange
from cacheproxy.totals.database import Database, Job
from cacheproxy.totals.store import MOST, InMemory, TotalsStore, tidy

_log = Logger()
_T = TypeVar("_T")
_TIDY = 60.0
_TIDY_ON = 1.0
_FASTEST = 60
"""Factor by which detail may age faster than time passes: a month takes half a day."""


class Totals(Database):
    """The observer that records every finished exchange, without its content, in ``folder``.

    ``reactor``: also the clock; ``wall``: returns seconds since the epoch. Call ``check()`` at the
    start, ``start()`` once the reactor runs, ``close()`` at the end, off the reactor's thread.
    """

    def __init__(self, reactor: Any, folder: Path, wall: Callable[[], float]) -> None:
        super().__init__(reactor, folder)
        self._wall = wall
        self._at: int | None = None
        self._moment = 0.0
        self._tidying = LoopingCall(self._tidy)
        self._tidying.clock = reactor
        self._served: dict[str, str | None] = {}

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Queue the records of ``exchanges``; the thread writes them."""
        served = self._served
        self.put(*[
            methodcaller("record", record_of(each, served.get(each.upstream)))
            for each in exchanges
        ])  # fmt: skip

    def start(self) -> None:
        """Begin the housekeeping."""
        self._tidying.start(_TIDY, now=True)

    def close(self, timeout: float = 10.0) -> None:
        """Stop tidying, write for at most ``timeout`` seconds, and close the file. Blocks."""
        if self._tidying.running:
            stop = self._tidying.stop
            self._reactor.callFromThread(lambda: self._tidying.running and stop())
        super().close(timeout)

    def looked(self, look: Look) -> None:
        """Note the model that the upstream serves, for the exchanges that end from now on."""
        if look.state is UpstreamState.UP:
            self._served[look.url] = look.served

    def ask(self, question: Callable[..., _T], *arguments: Any, **more: Any) -> Deferred[_T]:
        """Run a query: a function that takes a TotalsStore first (``overview``, ``requests``)."""
        return self.run(lambda store: question(store, *arguments, **more))

    @property
    def now(self) -> int:
        """The wall clock's time in milliseconds, which queries take."""
        return round(self._wall() * 1e3)

    def _tidy(self) -> None:
        now, moment = self.now, self._reactor.seconds()
        tidied = self.run(lambda store: tidy(store, self._aged(store, now, moment)))
        said = "the totals were not tidied: {why}"
        tidied.addCallbacks(
            self._tidied, lambda failure: _log.debug(said, why=failure.getErrorMessage())
        )

    def _tidied(self, more: bool) -> None:
        if more and self._tidying.running:
            self._reactor.callLater(_TIDY_ON, self._tidy)

    def _aged(self, store: TotalsStore, now: int, moment: float) -> int:
        """Return the time by which detail ages: the wall clock's (ms), but it never jumps ahead.

        A clock that is a year ahead for some hours would otherwise cost all detail. ``moment``:
        seconds of a clock that never jumps.
        """
        passed, self._moment = moment - self._moment, moment
        if self._at is None:
            (self._at,) = store.connection.execute("SELECT max(at) FROM exchanges").fetchone()
        elif now > self._at:
            self._at = min(now, self._at + round(passed * 1000 * _FASTEST))
        return now if self._at is None else min(now, self._at)


class InMemoryTotals(Totals):
    """The totals of the last exchanges alone, in memory, if no state directory is used."""

    def __init__(self, wall: Callable[[], float], most: int = MOST) -> None:
        super().__init__(None, Path(), wall)
        self.unkept = "--state-dir none"
        self._last = InMemory(most)

    def put(self, *jobs: Job) -> None:
        """Do ``jobs`` at once."""
        for job in jobs:
            job(self._last)

    def run(self, job: Callable[[TotalsStore], _T]) -> Deferred[_T]:
        """Do ``job`` at once; the Deferred has fired with its result."""
        self._last.flush()
        return execute(job, self._last)
