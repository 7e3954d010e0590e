"""The table of requests, page by page, and the sessions they belong to."""

from __future__ import annotations

from cacheproxy.core.conversation.speeds import generation_of, prefill_of
from cacheproxy.totals.store import Json, Store
from cacheproxy.totals.sums import IS_BREAK

FILTERS = {
    "all": "1",
    "breaks": IS_BREAK,
    "slow": "first_ms >= 10000",
    "errors": "failed = 1",
}
"""What the table can be cut down to; each but the first has an index. Slow: 10 s to a byte."""
_INDEX = {
    "all": "NOT INDEXED",
    "breaks": "INDEXED BY exchanges_breaks",
    "slow": "INDEXED BY exchanges_slow",
    "errors": "INDEXED BY exchanges_failed",
}
_MOST = 200
_FEW = 20_000
"""Exchanges of the sessions found, up to which they are looked up session by session."""
_PAGE = """
SELECT e.id, e.number, e.at / 1e3 AS at, s.client, s.name AS session, m.text AS asked,
    u.served AS model, d.text AS dialect, e.turn, e.side, e.status, o.text AS outcome, e.failed,
    e.prompt, e.reused, e.evaluated, e.output, e.prompt_ms / 1e3 AS prompt_seconds,
    e.output_ms / 1e3 AS output_seconds, e.first_ms / 1e3 AS first_seconds,
    e.total_ms / 1e3 AS total_seconds, (e.total_ms - e.first_ms) / 1e3 AS rest,
    e.added_us / 1e6 AS added, v.text AS verdict,
    r.text AS reason, k.text AS shape, e.place, e.lost, e.lost_ms / 1e3 AS lost_seconds, e.spared,
    e.spared_ms / 1e3 AS spared_seconds, f.text AS rules, e.up, e.down
FROM ({rows}) AS e
LEFT JOIN sessions AS s ON s.id = e.session LEFT JOIN upstreams AS u ON u.id = e.upstream
LEFT JOIN words AS m ON m.id = e.model LEFT JOIN words AS d ON d.id = e.dialect
LEFT JOIN words AS o ON o.id = e.outcome LEFT JOIN words AS v ON v.id = e.verdict
LEFT JOIN words AS r ON r.id = e.reason LEFT JOIN words AS k ON k.id = e.shape
LEFT JOIN words AS f ON f.id = e.rules
ORDER BY e.id DESC
"""
_FOUND = (
    "client LIKE :search ESCAPE '!' OR name LIKE :search ESCAPE '!' "
    "OR ifnull(model, '') LIKE :search ESCAPE '!'"
)


def requests(
    store: Store, which: str = "all", search: str = "", before: int | None = None, limit: int = 50
) -> Json:
    """Return a page of exchanges, the latest first.

    ``which``: one of FILTERS; ``search``: text in the client's, session's or model's name;
    ``before``: the ``next`` of the page before. Raises KeyError for a filter there is not.
    """
    limit = max(1, min(limit, _MOST))
    condition = FILTERS[which]
    index = ""
    pattern = "%" + search.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"
    scope: Json = {"before": before, "limit": limit + 1, "search": pattern}
    if before is not None:
        condition += " AND id < :before"
    if search:
        count, scope["last"] = store.connection.execute(
            f"SELECT total(requests), max(last) FROM sessions WHERE {_FOUND}",  # noqa: S608
            scope,
        ).fetchone()
        if not count:
            return {"requests": [], "next": None}
        condition += f" AND session IN (SELECT id FROM sessions WHERE {_FOUND})"  # noqa: S608
        if count <= _FEW:
            index = "INDEXED BY exchanges_session"
        else:  # newest first, from the last of them on
            index = _INDEX[which]
            condition += (
                " AND id <= ifnull((SELECT id FROM exchanges WHERE at <= :last "
                "ORDER BY at DESC LIMIT 1), 0)"
            )
    rows = (
        f"SELECT * FROM exchanges {index} "  # noqa: S608 - our own names
        f"WHERE {condition} ORDER BY id DESC LIMIT :limit"
    )
    page = store.rows(_PAGE.format(rows=rows), scope)
    return {
        "requests": [_request(store, row) for row in page[:limit]],
        "next": page[limit - 1]["id"] if len(page) > limit else None,
    }


def sessions(store: Store, since: int, limit: int = 50) -> list[Json]:
    """Return the sessions with a request at ``since`` (ms) or later, the latest first.

    Their figures are those of the whole session; ``context``: tokens after its last turn.
    ``prompt`` and ``reused`` are of the requests that say both.
    """
    return store.rows(
        "SELECT client, name AS session, model, first / 1e3 AS first, last / 1e3 AS last, requests,"
        " turns, breaks, prompt, reused, output, context FROM sessions "
        "WHERE sessions.last >= ? ORDER BY sessions.last DESC LIMIT ?",
        (since, max(1, min(limit, _MOST))),
    )


def _request(store: Store, found: Json) -> Json:
    output, rest = found["output"], found.pop("rest")
    measured = bool(output and found["output_seconds"])
    return found | {
        # Another run's: what is asked for by number is of this one.
        "number": found["number"] if found["id"] >= store.first else None,
        "side": bool(found["side"]),
        "failed": bool(found["failed"]),
        "rules": found["rules"].split(",") if found["rules"] else [],
        "prefill_speed": prefill_of(found["evaluated"], found["prompt_seconds"]),
        "speed": generation_of(output, found["output_seconds"] if measured else rest),
        "speed_source": ("measured" if measured else "estimated") if output else None,
    }
