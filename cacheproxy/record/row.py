"""A row of the page /_cacheproxy/exchanges: the figures of one exchange, written and read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cacheproxy.record.exchange import Exchange, Outcome, RecordColumn, row_of
from cacheproxy.record.jsonl import LINE, CapturedError, from_fields


def _expected(exchange: Exchange) -> int | None:
    verdict = exchange.verdict
    return verdict.expected.tokens if verdict and verdict.expected else None


_CAPTURED = {column.name: column for column in LINE}
LISTED = (
    *map(_CAPTURED.__getitem__, ("number", "client", "session", "turn", "side", "method")),
    RecordColumn("path", "received.path"),
    *map(_CAPTURED.__getitem__, ("status", "outcome", "error")),
    RecordColumn(
        "usage",
        lambda each: {name: getattr(each.usage, name) for name in ("prompt", "reused", "output")},
        "tokens",
    ),
    RecordColumn("verdict", lambda each: each.verdict and each.verdict.judgement),
    RecordColumn("reason", "reason"),
    RecordColumn("rewrite", lambda each: each.verdict and each.verdict.rewrite),
    RecordColumn("lost", "lost", "tokens"),
    RecordColumn("expected", _expected, "tokens"),
    RecordColumn("rules", lambda each: {rule: count for rule, count, _ in each.edits}),
    RecordColumn("wall", "wall", "s since the epoch"),
    _CAPTURED["first_byte"],
    RecordColumn("progress", lambda each: each.progress and asdict(each.progress), "tokens"),
    RecordColumn("held", "held"),
    *map(_CAPTURED.__getitem__, ("joined", "queued", "queued_for")),
    RecordColumn("seconds", "seconds", "s"),
)
"""Columns of the page: no prompt text, no query, no header."""
listed = row_of(LISTED)


def rows_in(page: Any) -> list[Exchange] | None:
    """Return the exchanges of a page, without malformed rows; None if it is no such page."""
    rows = page.get("exchanges") if isinstance(page, dict) else page
    if not isinstance(rows, list):
        return None
    return [one for row in rows if isinstance(row, dict) and (one := _exchange(row)) is not None]


def _exchange(row: dict[str, Any]) -> Exchange | None:
    """Return the exchange of a row; columns that an older proxy does not send are unknown."""
    counts = {
        name: {"tokens": row[name], "source": "measured"}
        for name in ("lost", "expected")
        if row.get(name) is not None
    }
    verdict = {name: row.get(name) for name in ("reason", "rewrite")} | counts
    plain = {"method": "", "path": "", "outcome": Outcome.COMPLETE, "wall": 0.0} | row
    try:
        return from_fields(
            plain | {"t": plain["wall"], "verdict": verdict | {"judgement": row.get("verdict")}}
        )
    except CapturedError:
        return None
