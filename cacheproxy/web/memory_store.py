"""The last exchanges where no totals are kept: the same questions, asked of memory alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, execute

from cacheproxy import hookimpl, quick
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.totals.memory import MOST, InMemory
from cacheproxy.totals.record import record_of
from cacheproxy.totals.totals import Totals

_T = TypeVar("_T")


class InMemoryTotals:
    """An observer, and a source for the dashboard as ``totals.Totals`` is one.

    ``wall``: returns seconds since the epoch.
    """

    unkept = "--state-dir none"

    def __init__(self, wall: Callable[[], float], most: int = MOST) -> None:
        self._wall = wall
        self._store = InMemory(most)

    @property
    def now(self) -> int:
        """Now, in the milliseconds that questions take."""
        return round(self._wall() * 1e3)

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Remember their figures."""
        for exchange in exchanges:
            self._store.record(record_of(exchange))

    def ask(self, question: Callable[..., _T], *arguments: Any, **more: Any) -> Deferred[_T]:
        """Ask one of the functions that take a Store first."""
        self._store.flush()
        return execute(question, self._store, *arguments, **more)


Source = Totals | InMemoryTotals
"""Who answers questions about what was."""
