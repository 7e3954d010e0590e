"""What a window has, as comma-separated values (RFC 4180): figures and names alone."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from cacheproxy.record.kept import Shown, select
from cacheproxy.totals.store import TotalsStore

_PAGE = 250
"""Rows asked for at a time: four milliseconds, of the reactor where nothing is kept in a file."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for a formula at the start of a name that a client chose
(https://owasp.org/www-community/attacks/CSV_Injection)."""
_EXCHANGES = """
SELECT * FROM exchanges INDEXED BY exchanges_at
WHERE at >= :since AND (at, id) > (:first, :second) ORDER BY at, id LIMIT :limit
"""
_SESSIONS = """
SELECT * FROM sessions WHERE id > :second AND last >= :since AND requests > 0
ORDER BY id LIMIT :limit
"""
TABLES = {
    "requests": select(Shown.REQUESTS_CSV, _EXCHANGES, "e.at, e.id", also="e.at, e.id, "),
    "conversations": select(Shown.CONVERSATIONS_CSV, _SESSIONS, also="e.id, e.id, "),
}
START = (0, 0)


def rows_of(
    store: TotalsStore, name: str, since: int, after: tuple[int, int] = START
) -> tuple[str, tuple[int, int] | None]:
    """Return some rows of the table ``name`` from ``since`` (ms) on, and where to go on.

    That is None behind the last; the first page begins with the names of the columns.
    """
    scope = {"since": since, "first": after[0], "second": after[1], "limit": _PAGE}
    found = store.connection.execute(TABLES[name], scope)
    text = StringIO()
    writer = csv.writer(text)
    if after == START:
        writer.writerow([column[0] for column in found.description[2:]])
    rows = found.fetchall()
    writer.writerows([[_plain(value) for value in row[2:]] for row in rows])
    return text.getvalue(), rows[-1][:2] if len(rows) == _PAGE else None


def _plain(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
