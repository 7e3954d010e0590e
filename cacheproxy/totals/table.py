"""What a window has, as comma-separated values (RFC 4180): figures and names alone."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from cacheproxy.totals.requests import NAMES
from cacheproxy.totals.store import TotalsStore

_PAGE = 250
"""Rows asked for at a time: four milliseconds, of the reactor where nothing is kept in a file."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for a formula at the start of a name that a client chose
(https://owasp.org/www-community/attacks/CSV_Injection)."""
_REQUESTS = f"""
SELECT e.at, e.id, e.at / 1e3 AS at, s.client, s.name AS session, e.turn, e.side,
    u.url AS upstream, m.text AS model, e.status, o.text AS outcome, e.failed, e.prompt,
    e.reused, e.evaluated, e.output, e.tools, e.system, e.history, e.thinking, e.newest AS last,
    e.prompt_ms / 1e3 AS prompt_seconds, e.output_ms / 1e3 AS output_seconds,
    e.first_ms / 1e3 AS first_seconds, e.total_ms / 1e3 AS total_seconds, v.text AS verdict,
    r.text AS reason, k.text AS shape, e.lost, e.lost_ms / 1e3 AS lost_seconds,
    e.spared AS saved, e.spared_ms / 1e3 AS saved_seconds, f.text AS rules
FROM (
    SELECT * FROM exchanges INDEXED BY exchanges_at
    WHERE at >= :since AND (at, id) > (:first, :second) ORDER BY at, id LIMIT :limit
) AS e
{NAMES}
ORDER BY e.at, e.id
"""  # noqa: S608 - our own names
_CONVERSATIONS = """
SELECT s.id, s.id, s.client, s.name AS session, r.name AS root, s.model, u.url AS upstream,
    s.first / 1e3 AS first, s.last / 1e3 AS last, s.requests, s.turns, s.side, s.prompt, s.reused,
    s.evaluated, s.output, s.context, s.breaks, s.lost, s.lost_ms / 1e3 AS lost_seconds,
    s.spared AS saved, s.spared_ms / 1e3 AS saved_seconds
FROM (
    SELECT * FROM sessions WHERE id > :second AND last >= :since AND requests > 0
    ORDER BY id LIMIT :limit
) AS s LEFT JOIN sessions AS r ON r.id = s.root LEFT JOIN upstreams AS u ON u.id = s.upstream
ORDER BY s.id
"""
START = (0, 0)
TABLES = {"requests": _REQUESTS, "conversations": _CONVERSATIONS}


def page(
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
