"""The last exchanges where there is no file: what answers the same questions, from memory."""

from __future__ import annotations

import sqlite3

from cacheproxy.totals.migrations import migrate
from cacheproxy.totals.store import Json, TotalsStore
from cacheproxy.totals.sums import ROLLUPS

MOST = 500
"""Exchanges: so few that a question takes a millisecond, and may be asked on the reactor."""
_EACH = 100
"""Exchanges after which those beyond the most are dropped."""


class InMemory(TotalsStore):
    """A store without a file, of the last ``most`` exchanges and up to a hundred more."""

    def __init__(self, most: int = MOST) -> None:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        migrate(connection)
        super().__init__(connection)
        self._most = most
        self._count = 0

    def record(self, record: Json) -> None:
        """Write an exchange; now and then drop those that are too many."""
        super().record(record)
        self._count += 1
        if self._count % _EACH == 0:
            self._forget_old()

    def _forget_old(self) -> None:
        """Drop what is older than the last exchanges; sums by the minute go with their rows."""
        self.flush()
        run = self.connection.execute
        run("DELETE FROM exchanges WHERE id <= (SELECT max(id) FROM exchanges) - ?", (self._most,))
        (oldest,) = run("SELECT min(at) FROM exchanges").fetchone()
        for each in ROLLUPS:
            run(f"DELETE FROM {each.table} WHERE at + step <= ?", (oldest,))  # noqa: S608
        run("DELETE FROM sessions WHERE id NOT IN (SELECT ifnull(session, 0) FROM exchanges)")
        self.names.forget()
