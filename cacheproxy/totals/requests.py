"""The table of requests, page by page, and the sessions they belong to.

Also all that a window has, as comma-separated values (RFC 4180): figures and names alone.
"""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from cacheproxy.core.conversation.speeds import generation_of
from cacheproxy.record.kept import Json, Shown, select
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.sums import IS_BREAK, SCOPE

FILTERS = {
    "all": ("1", "NOT INDEXED"),
    "breaks": (IS_BREAK, "INDEXED BY exchanges_breaks"),
    "slow": ("first_ms >= 10000", "INDEXED BY exchanges_slow"),
    "errors": ("failed = 1", "INDEXED BY exchanges_failed"),
}
"""What the table can be cut down to, and its index. Slow: 10 s to a byte."""
Period = tuple[int, int]
"""From when until when, in ms since the epoch; the end is not in it."""
_MOST = 200
_FEW = 20_000
"""Exchanges of the sessions found, up to which they are looked up session by session."""
_ENDS = f"SELECT min(id), max(id) FROM exchanges INDEXED BY exchanges_at WHERE {SCOPE}"  # noqa: S608
_LATEST = """
SELECT * FROM sessions WHERE last >= :since AND last < :until AND requests > 0
ORDER BY last DESC LIMIT :limit
"""
_FOUND = (
    "client LIKE :search ESCAPE '!' OR name LIKE :search ESCAPE '!' "
    "OR ifnull(model, '') LIKE :search ESCAPE '!'"
)
_CAUSED = (
    " AND reason = (SELECT id FROM words WHERE text = :reason)"
    " AND iif(:shape = '', shape IS NULL, shape = (SELECT id FROM words WHERE text = :shape))"
)
_ROWS = 250
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


def requests(
    store: TotalsStore,
    which: str = "all",
    search: str = "",
    before: int | None = None,
    limit: int = 50,
    *,
    period: Period | None = None,
    cause: str = "",
) -> Json:
    """Return a page of exchanges, the latest first.

    ``which``: one of FILTERS; ``search``: text in the client's, session's or model's name;
    ``before``: the ``next`` of the page before; ``period``: when they began; ``cause``: reason and
    shape of a break, with a blank between them. Raises KeyError for a filter there is not.
    """
    limit = max(1, min(limit, _MOST))
    (condition, own), index = FILTERS[which], ""
    scope: Json = {"before": before, "limit": limit + 1, "search": like(search)}
    if cause:
        condition += _CAUSED
        scope["reason"], _, scope["shape"] = cause.partition(" ")
    if before is not None:
        condition += " AND id < :before"
    if period is not None:  # rows that began in it lie close together, and so do their ids
        scope["start"], scope["end"] = period
        scope["low"], scope["high"] = store.connection.execute(_ENDS, scope).fetchone()
        index = own
        condition += f" AND id BETWEEN :low AND :high AND {SCOPE}"
    if search:
        count, scope["last"] = store.connection.execute(
            "SELECT total(requests), "  # noqa: S608 - our own names
            "max((SELECT max(id) FROM exchanges WHERE session = sessions.id)) "
            f"FROM sessions WHERE {_FOUND}",
            scope,
        ).fetchone()
        if not count:
            return {"requests": [], "next": None}
        condition += f" AND session IN (SELECT id FROM sessions WHERE {_FOUND})"  # noqa: S608
        if count <= _FEW:
            index = "INDEXED BY exchanges_session"
        else:  # newest first, from the last of them on
            index = own
            condition += " AND id <= ifnull(:last, 0)"
    rows = (
        f"SELECT * FROM exchanges {index} "  # noqa: S608 - our own names
        f"WHERE {condition} ORDER BY id DESC LIMIT :limit"
    )
    page = store.shown(Shown.REQUESTS, rows, scope, "e.id DESC")
    return {
        "requests": [_request(row) for row in page[:limit]],
        "next": page[limit - 1]["id"] if len(page) > limit else None,
    }


def like(search: str) -> str:
    """Return the pattern, with ``!`` as its escape, of texts that have ``search`` in them."""
    return "%" + search.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"


def sessions(store: TotalsStore, since: int, until: int, limit: int = 50) -> list[Json]:
    """Return the sessions whose last request was at ``since`` (ms) or later, the latest first.

    Those from ``until`` on are left out: a clock has been set back since.

    Their figures are those of the whole session; ``context``: tokens after its last turn.
    ``prompt`` and ``reused`` are of the requests that say both.
    """
    scope = {"since": since, "until": until, "limit": max(1, min(limit, _MOST))}
    return store.shown(Shown.LATEST, _LATEST, scope, "e.last DESC")


def _request(found: Json) -> Json:
    output, measured, rest = found["output"], found.pop("output_seconds"), found.pop("rest")
    return found | {
        "side": bool(found["side"]),
        "failed": bool(found["failed"]),
        "rules": found["rules"].split(",") if found["rules"] else [],
        "speed": generation_of(output, measured or rest),
        "speed_source": ("measured" if measured else "estimated") if output else None,
    }


def rows_of(
    store: TotalsStore, name: str, since: int, after: tuple[int, int] = START
) -> tuple[str, tuple[int, int] | None]:
    """Return some rows of the table ``name`` from ``since`` (ms) on, and where to go on.

    That is None behind the last; the first page begins with the names of the columns.
    """
    scope = {"since": since, "first": after[0], "second": after[1], "limit": _ROWS}
    found = store.connection.execute(TABLES[name], scope)
    text = StringIO()
    writer = csv.writer(text)
    if after == START:
        writer.writerow([column[0] for column in found.description[2:]])
    rows = found.fetchall()
    writer.writerows([[_plain(value) for value in row[2:]] for row in rows])
    return text.getvalue(), rows[-1][:2] if len(rows) == _ROWS else None


def _plain(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
