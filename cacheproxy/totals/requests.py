"""The table of requests, page by page, and the sessions they belong to."""

from __future__ import annotations

from typing import Any

from cacheproxy.core.conversation.speeds import generation_of, prefill_of
from cacheproxy.totals.store import Store

Json = dict[str, Any]

FILTERS = {
    "all": "1",
    "breaks": "reason IS NOT NULL AND side = 0",
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
_COLUMNS = (
    "id", "number", "at", "client", "session", "asked", "model", "dialect", "turn", "side",
    "status", "outcome", "failed", "prompt", "reused", "evaluated", "output", "prompt_ms",
    "output_ms", "first_ms", "total_ms", "added_us", "verdict", "reason", "shape", "place", "lost",
    "lost_ms", "spared", "spared_ms", "rules", "up", "down",
)  # fmt: skip
_PAGE = """
SELECT e.id, e.number, e.at, s.client, s.name, m.text, u.served, d.text, e.turn, e.side, e.status,
    o.text, e.failed, e.prompt, e.reused, e.evaluated, e.output, e.prompt_ms, e.output_ms,
    e.first_ms, e.total_ms, e.added_us, v.text, r.text, k.text, e.place, e.lost, e.lost_ms,
    e.spared, e.spared_ms, f.text, e.up, e.down
FROM ({rows}) AS e
LEFT JOIN sessions AS s ON s.id = e.session LEFT JOIN upstreams AS u ON u.id = e.upstream
LEFT JOIN words AS m ON m.id = e.model LEFT JOIN words AS d ON d.id = e.dialect
LEFT JOIN words AS o ON o.id = e.outcome LEFT JOIN words AS v ON v.id = e.verdict
LEFT JOIN words AS r ON r.id = e.reason LEFT JOIN words AS k ON k.id = e.shape
LEFT JOIN words AS f ON f.id = e.rules
ORDER BY e.id DESC
"""
_SESSIONS = (
    "client", "session", "model", "first", "last", "requests", "turns", "breaks", "prompt",
    "reused", "output", "context",
)  # fmt: skip


def requests(
    store: Store, which: str = "all", search: str = "", before: int | None = None, limit: int = 50
) -> Json:
    """Return a page of exchanges, the latest first.

    ``which``: one of FILTERS; ``search``: text in the client's, session's or model's name;
    ``before``: the ``next`` of the page before. Raises KeyError for a filter there is not.
    """
    limit = max(1, min(limit, _MOST))
    condition = FILTERS[which]
    parameters: list[object] = []
    index = ""
    if before is not None:
        condition += " AND id < ?"
        parameters.append(before)
    if search:
        pattern = "%" + search.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"
        found = (
            "client LIKE ? ESCAPE '!' OR name LIKE ? ESCAPE '!' "
            "OR ifnull(model, '') LIKE ? ESCAPE '!'"
        )
        patterns = [pattern] * 3
        count, last = store.connection.execute(
            f"SELECT total(requests), max(last) FROM sessions WHERE {found}",  # noqa: S608
            patterns,
        ).fetchone()
        if not count:
            return {"requests": [], "next": None}
        condition += f" AND session IN (SELECT id FROM sessions WHERE {found})"  # noqa: S608
        parameters += patterns
        if count <= _FEW:
            index = "INDEXED BY exchanges_session"
        else:  # newest first, from the last of them on
            index = _INDEX[which]
            condition += (
                " AND id <= ifnull((SELECT id FROM exchanges WHERE at <= ? "
                "ORDER BY at DESC LIMIT 1), 0)"
            )
            parameters.append(last)
    rows = (
        f"SELECT * FROM exchanges {index} "  # noqa: S608 - our own names
        f"WHERE {condition} ORDER BY id DESC LIMIT ?"
    )
    page = store.connection.execute(_PAGE.format(rows=rows), (*parameters, limit + 1)).fetchall()
    return {
        "requests": [_request(store, row) for row in page[:limit]],
        "next": page[limit - 1][0] if len(page) > limit else None,
    }


def sessions(store: Store, since: int, limit: int = 50) -> list[Json]:
    """Return the sessions with a request at ``since`` (ms) or later, the latest first.

    Their figures are those of the whole session; ``context``: tokens after its last turn.
    ``prompt`` and ``reused`` are of the requests that say both.
    """
    rows = store.connection.execute(
        "SELECT client, name, model, first, last, requests, turns, breaks, prompt, reused, output, "
        "context FROM sessions WHERE last >= ? ORDER BY last DESC LIMIT ?",
        (since, max(1, min(limit, _MOST))),
    )
    found = [dict(zip(_SESSIONS, row, strict=True)) for row in rows]
    return [each | {"first": each["first"] / 1e3, "last": each["last"] / 1e3} for each in found]


def _request(store: Store, row: tuple[Any, ...]) -> Json:
    found = dict(zip(_COLUMNS, row, strict=True))
    if found["id"] < store.first:
        found["number"] = None  # another run's: what is asked for by number is of this one
    output, output_ms, first = found["output"], found["output_ms"], found["first_ms"]
    measured = bool(output and output_ms)
    if not measured and output and first is not None:
        output_ms = found["total_ms"] - first
    for name in ("prompt", "output", "first", "total", "lost", "spared"):
        time = found.pop(f"{name}_ms")
        found[f"{name}_seconds"] = None if time is None else time / 1e3
    added = found.pop("added_us")
    return found | {
        "at": found["at"] / 1e3,
        "side": bool(found["side"]),
        "failed": bool(found["failed"]),
        "added": None if added is None else added / 1e6,
        "rules": found["rules"].split(",") if found["rules"] else [],
        "prefill_speed": prefill_of(found["evaluated"], found["prompt_seconds"]),
        "speed": generation_of(output, None if output_ms is None else output_ms / 1e3),
        "speed_source": ("measured" if measured else "estimated") if output else None,
    }
