"""An open file of totals, as its one thread writes it."""

from __future__ import annotations

import sqlite3

from cacheproxy.core.server.status import Look
from cacheproxy.totals.exchanges import Exchanges
from cacheproxy.totals.lifetime import Lifetime
from cacheproxy.totals.names import Names
from cacheproxy.totals.record import Record


class Store:
    """Writes records and looks. ``first``: the first row of this run, whose numbers still hold.

    ``flush`` comes before a commit, ``forget`` after a rollback.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        (self.first,) = connection.execute(
            "SELECT ifnull(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'exchanges'"
        ).fetchone()
        self._looked: dict[str, float] = {}
        self._kept: dict[str, float] = {}
        """What had been looked at when ``flush`` was called last."""
        self._begin()

    def _begin(self) -> None:
        self.names = Names(self.connection)
        self._exchanges = Exchanges(self.connection, self.names)
        self._lifetime = Lifetime(self.connection, self.names)

    def record(self, record: Record) -> None:
        """Write an exchange."""
        looked = self._looked.get(record.upstream)
        under_way = looked is not None and record.began <= looked
        self._exchanges.insert(record, under_way=under_way)

    def look(self, look: Look) -> None:
        """Count a look at an upstream, and the exchanges since the last."""
        self._lifetime.count(look)
        if look.reading is not None:
            self._looked[look.url] = look.moment

    def flush(self) -> None:
        """Write what waits in memory."""
        self._exchanges.flush()
        self._kept = self._looked.copy()

    def forget(self) -> None:
        """Forget what has been remembered of what was not kept."""
        self._looked = self._kept.copy()
        self._begin()
