"""The windows that are asked for, and what was recorded in them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from cacheproxy.core.conversation.speeds import (
    LEAST_EVALUATED,
    LEAST_OUTPUT,
    LEAST_OUTPUT_MS,
    generation_of,
    prefill_of,
)
from cacheproxy.totals.migrations import class_middle
from cacheproxy.totals.store import Store

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """``length`` and ``bucket`` of its series in ms; ``step``: sums it is made of, 0: the rows."""

    length: int
    bucket: int
    step: int

    def start(self, now: int) -> int:
        """Return where the window that ends ``now`` begins: where one of its buckets does."""
        return now // self.bucket * self.bucket + self.bucket - self.length


WINDOWS = {
    "15m": Window(900_000, 15_000, 0),
    "1h": Window(3_600_000, 60_000, 60_000),
    "24h": Window(86_400_000, 900_000, 60_000),
    "30d": Window(30 * 86_400_000, 6 * 3_600_000, 3_600_000),
}

_NAMES = (
    "requests", "turns", "errors", "breaks", "prompt", "reused", "evaluated", "output", "lost",
    "spared", "timed_prompt", "prompt_ms", "timed_output", "output_ms", "added_us", "sent",
    "spared_ms", "unpriced", "first_ms",
)  # fmt: skip
_TELLS_PREFILL = f"evaluated >= {LEAST_EVALUATED} AND prompt_ms > 0"
_TELLS_GENERATION = f"output >= {LEAST_OUTPUT} AND output_ms >= {LEAST_OUTPUT_MS}"
_FROM_ROWS = f"""
SELECT at / :bucket * :bucket,
    count(*), sum(turn > 0), sum(failed), sum(reason IS NOT NULL AND side = 0), total(prompt),
    total(reused), total(evaluated), total(output), total(lost), total(spared),
    total(CASE WHEN {_TELLS_PREFILL} THEN evaluated END),
    total(CASE WHEN {_TELLS_PREFILL} THEN prompt_ms END),
    total(CASE WHEN {_TELLS_GENERATION} THEN output END),
    total(CASE WHEN {_TELLS_GENERATION} THEN output_ms END),
    total(added_us), count(added_us),
    total(spared_ms), total(CASE WHEN spared_ms IS NULL THEN spared END), ifnull(max(first_ms), 0)
FROM exchanges WHERE at >= :start AND at < :end GROUP BY 1 ORDER BY 1
"""  # noqa: S608 - our own numbers
_FROM_ROLLUPS = """
SELECT at / :bucket * :bucket,
    sum(requests), sum(turns), sum(failed), sum(breaks), sum(prompt), sum(reused), sum(evaluated),
    sum(output), sum(lost), sum(spared), sum(timed_prompt), sum(prompt_ms), sum(timed_output),
    sum(output_ms), sum(added_us), sum(sent), sum(spared_ms), sum(unpriced), max(first_ms)
FROM rollups WHERE step = :step AND at >= :start AND at < :end GROUP BY 1 ORDER BY 1
"""
_SERVER = """
SELECT at / :bucket * :bucket, sum(looks), sum(prompt), sum(reused), sum(evaluated), sum(generated),
    sum(prefill), sum(generation), sum(running), sum(waiting), sum(kv)
FROM samples WHERE at >= :start AND at < :end GROUP BY 1 ORDER BY 1
"""
_SERVER_NAMES = (
    "looks", "prompt", "reused", "evaluated", "generated", "prefill", "generation", "running",
    "waiting", "kv",
)  # fmt: skip


def overview(store: Store, name: str, now: int) -> Json:
    """Return sums and series of the window ``name`` (one of WINDOWS) that ends ``now`` (ms).

    Times are seconds since the epoch, lengths seconds. ``series``: buckets in which something
    happened, of the exchanges; ``server``: of the upstream's own counters, whoever asked it.
    Raises KeyError for a window there is not.
    """
    window = WINDOWS[name]
    scope = _scope(window, now)
    sql = _FROM_ROLLUPS if window.step else _FROM_ROWS
    rows = store.connection.execute(sql, scope).fetchall()
    buckets = [(row[0], dict(zip(_NAMES, map(int, row[1:]), strict=True))) for row in rows]
    sums = {key: sum(each[key] for _, each in buckets) for key in _NAMES}
    sums["first_ms"] = max((each["first_ms"] for _, each in buckets), default=0)
    server = store.connection.execute(_SERVER, scope).fetchall()
    return {
        "window": name,
        "start": scope["start"] / 1e3,
        "end": scope["end"] / 1e3,
        "bucket": window.bucket / 1e3,
        "sums": {
            **_shown(sums),
            "first_median": _median_first(store, window, scope),
            "added": sums["added_us"] / sums["sent"] / 1e6 if sums["sent"] else None,
        },
        "series": [{"at": at / 1e3, **_shown(each)} for at, each in buckets],
        "server": [_server(row) for row in server],
    }


def breaks(store: Store, name: str, now: int) -> list[Json]:
    """Return why the cache broke in the window: reason and shape, the dearest first.

    ``lost`` in tokens, ``share`` of the window's prompt tokens (None if no server told both),
    ``seconds`` those their evaluation took, ``place`` and ``number`` of the latest; ``number`` is
    None if that was before the proxy started.
    """
    window = WINDOWS[name]
    scope = _scope(window, now)
    if window.step:
        source = (
            "SELECT reason, shape, sum(count), sum(lost), sum(lost_ms), max(last) "
            "FROM rollup_breaks WHERE step = :step AND at >= :start AND at < :end GROUP BY 1, 2"
        )
    else:
        source = (
            "SELECT reason, ifnull(shape, 0), count(*), total(lost), total(lost_ms), max(id) "
            "FROM exchanges WHERE at >= :start AND at < :end AND reason IS NOT NULL AND side = 0 "
            "GROUP BY 1, 2"
        )
    rows = store.connection.execute(
        f"WITH f (reason, shape, count, lost, lost_ms, last) AS ({source}) "  # noqa: S608
        "SELECT r.text, s.text, f.count, f.lost, f.lost_ms, f.last, e.place, e.number, c.client, "
        "c.name FROM f JOIN words AS r ON r.id = f.reason LEFT JOIN words AS s ON s.id = f.shape "
        "LEFT JOIN exchanges AS e ON e.id = f.last LEFT JOIN sessions AS c ON c.id = e.session "
        "ORDER BY f.lost DESC, f.count DESC",
        scope,
    )
    table, step = ("rollups", "step = :step AND ") if window.step else ("exchanges", "")
    (known,) = store.connection.execute(
        f"SELECT total(reused) + total(evaluated) FROM {table} "  # noqa: S608 - our own names
        f"WHERE {step}at >= :start AND at < :end",
        scope,
    ).fetchone()
    return [
        {
            "reason": reason,
            "shape": shape,
            "count": count,
            "lost": int(lost),
            "share": lost / known if known else None,
            "seconds": lost_ms / 1e3,
            "place": place,
            "client": client,
            "session": session,
            "number": number if last >= store.first else None,
        }
        for reason, shape, count, lost, lost_ms, last, place, number, client, session in rows
    ]


def _scope(window: Window, now: int) -> dict[str, int]:
    start = window.start(now)
    return {
        "start": start,
        "end": start + window.length,
        "bucket": window.bucket,
        "step": window.step,
    }


def _shown(sums: dict[str, int]) -> Json:
    shown: Json = {
        key: sums[key]
        for key in (
            "requests", "turns", "errors", "breaks", "prompt", "reused", "evaluated", "output",
            "lost", "spared", "unpriced",
        )
    }  # fmt: skip
    return shown | {
        "spared_seconds": sums["spared_ms"] / 1e3,
        "first_worst": sums["first_ms"] / 1e3 if sums["first_ms"] else None,
        "prefill_speed": _speed(sums["timed_prompt"], sums["prompt_ms"]),
        "generation_speed": _speed(sums["timed_output"], sums["output_ms"]),
    }


def _speed(tokens: float | None, milliseconds: float | None) -> float | None:
    return tokens * 1e3 / milliseconds if tokens and milliseconds else None


def _server(row: tuple[Any, ...]) -> Json:
    found = dict(zip(_SERVER_NAMES, row[1:], strict=True))
    looks = found.pop("looks")
    for name in ("running", "waiting", "kv"):
        found[name] = None if found[name] is None else found[name] / looks
    seconds, evaluated = found.pop("prefill"), found["evaluated"]
    generating, generated = found.pop("generation"), found["generated"]
    return {
        "at": row[0] / 1e3,
        **found,
        "prefill_speed": prefill_of(evaluated, seconds),
        "generation_speed": generation_of(generated, generating),
    }


def _median_first(store: Store, window: Window, scope: dict[str, int]) -> float | None:
    """Return the median wait of a turn for its first byte: exact, or within 9 %."""
    if not window.step:
        rows = store.connection.execute(
            "SELECT first_ms FROM exchanges WHERE at >= :start AND at < :end "
            "AND turn > 0 AND first_ms IS NOT NULL",
            scope,
        )
        waits = [row[0] for row in rows]
        return median(waits) / 1e3 if waits else None
    classes = store.connection.execute(
        "SELECT class, sum(count) FROM rollup_firsts "
        "WHERE step = :step AND at >= :start AND at < :end GROUP BY 1 ORDER BY 1",
        scope,
    ).fetchall()
    left = sum(count for _, count in classes) / 2
    for number, count in classes:
        left -= count
        if left <= 0:
            return class_middle(number) / 1e3
    return None
