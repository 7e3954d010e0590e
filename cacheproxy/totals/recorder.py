"""The observer that hands every finished exchange to the totals, without its content."""

from __future__ import annotations

from functools import partial
from typing import Any

from cacheproxy import hookimpl
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.totals.database import Database
from cacheproxy.totals.record import Record, record_of
from cacheproxy.totals.store import Store


class Recorder:
    """``clock``: an IReactorTime, which the looks at the upstream are timed by, too."""

    def __init__(self, database: Database, clock: Any) -> None:
        self._database = database
        self._clock = clock

    @hookimpl
    def cacheproxy_exchange_finished(self, exchange: Exchange) -> None:
        """Take the figures; the thread writes them."""
        record = record_of(exchange, self._clock.seconds())
        self._database.put(partial(_write, record))


def _write(record: Record, store: Store) -> None:
    store.record(record)
