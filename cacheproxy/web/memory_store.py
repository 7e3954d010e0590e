"""The last exchanges where no totals are kept: the same questions, asked of memory alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, execute

from cacheproxy import hookimpl
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.totals.migrations import migrate
from cacheproxy.totals.record import record_of
from cacheproxy.totals.store import Store

_T = TypeVar("_T")
_MOST = 500
"""Exchanges: so few that a question takes a millisecond, and may be asked on the reactor."""
_EACH = 100
"""Exchanges after which those beyond the most are dropped."""


class Unkept:
    """An observer, and a source for the dashboard as ``totals.Totals`` is one.

    ``clock``: an IReactorTime; ``wall``: returns seconds since the epoch.
    """

    def __init__(self, clock: Any, wall: Callable[[], float], most: int = _MOST) -> None:
        self._clock = clock
        self._wall = wall
        self._most = most
        self._count = 0
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        migrate(connection)
        self._store = Store(connection)

    @property
    def now(self) -> int:
        """Now, in the milliseconds that questions take."""
        return round(self._wall() * 1e3)

    @hookimpl
    def cacheproxy_exchange_finished(self, exchange: Exchange) -> None:
        """Remember the exchange's figures."""
        self._store.record(record_of(exchange, self._clock.seconds()))
        self._count += 1
        if self._count % _EACH == 0:
            self._forget()

    def ask(self, question: Callable[..., _T], *arguments: Any, **more: Any) -> Deferred[_T]:
        """Ask one of the functions that take a Store first."""
        self._store.flush()
        return execute(question, self._store, *arguments, **more)

    def _forget(self) -> None:
        """Drop what is older than the last exchanges; sums by the minute go with their rows."""
        self._store.flush()
        run = self._store.connection.execute
        run(
            "DELETE FROM exchanges WHERE id <= (SELECT max(id) FROM exchanges) - ?",
            (self._most,),
        )
        (oldest,) = run("SELECT min(at) FROM exchanges").fetchone()
        for table in ("rollups", "rollup_firsts", "rollup_breaks"):
            run(f"DELETE FROM {table} WHERE at + step <= ?", (oldest,))  # noqa: S608 - our names
        run("DELETE FROM sessions WHERE id NOT IN (SELECT ifnull(session, 0) FROM exchanges)")
        self._store.names.forget()
