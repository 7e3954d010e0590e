"""The windows that are asked for, and what was recorded in them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from cacheproxy.core.conversation.speeds import generation_of, prefill_of
from cacheproxy.totals.migrations import class_middle
from cacheproxy.totals.samples import SAMPLE_STEPS
from cacheproxy.totals.store import Json, Store
from cacheproxy.totals.sums import IS_BREAK, LONGEST, SUMS


@dataclass(frozen=True, slots=True)
class Window:
    """``length`` and ``bucket`` of its series in ms; ``step``: sums it is made of, 0: the rows.

    ``name``: what stands behind "the last".
    """

    name: str
    length: int
    bucket: int
    step: int

    def start(self, now: int) -> int:
        """Return where the window that ends ``now`` begins: where one of its buckets does."""
        return now // self.bucket * self.bucket + self.bucket - self.length


WINDOWS = {
    "15m": Window("15 minutes", 900_000, 15_000, 0),
    "1h": Window("hour", 3_600_000, 60_000, 60_000),
    "24h": Window("24 hours", 86_400_000, 900_000, 60_000),
    "30d": Window("30 days", 30 * 86_400_000, 6 * 3_600_000, 3_600_000),
}

SCOPE = "WHERE at >= :start AND at < :end"
"""Of exchanges; STEP_SCOPE: of sums."""
_UPSTREAMS = "upstream IN (SELECT id FROM upstreams)"
"""All of them, and yet it saves most of the reading: keys have the upstream before the time."""
STEP_SCOPE = f"{SCOPE} AND step = :step AND {_UPSTREAMS}"
_FROM_ROWS = (
    "SELECT at / :bucket * :bucket AS at, "  # noqa: S608 - our own names
    + ", ".join(f"{sql} AS {name}" for name, sql in (LONGEST | SUMS).items())
    + f" FROM exchanges {SCOPE} GROUP BY 1 ORDER BY 1"
)
_FROM_ROLLUPS = (
    "SELECT at / :bucket * :bucket AS at, "  # noqa: S608
    + ", ".join(
        f"{'max' if name in LONGEST else 'sum'}({name}) AS {name}" for name in LONGEST | SUMS
    )
    + f" FROM rollups {STEP_SCOPE} GROUP BY 1 ORDER BY 1"
)
_SERVER = f"""
SELECT at / :bucket * :bucket / 1e3 AS at, sum(evaluated) AS evaluated,
    sum(generated) AS generated, sum(prefill) AS prefill, sum(generation) AS generation,
    sum(kv) / sum(looks) AS kv
FROM samples {SCOPE} AND {_UPSTREAMS} AND step IN ({", ".join(map(str, SAMPLE_STEPS))})
GROUP BY 1 ORDER BY 1
"""  # noqa: S608
_BREAKS_OF_ROWS = f"""
SELECT reason, ifnull(shape, 0), count(*), total(lost), total(lost_ms), max(id)
FROM exchanges {SCOPE} AND {IS_BREAK} GROUP BY 1, 2
"""  # noqa: S608
_BREAKS_OF_ROLLUPS = f"""
SELECT reason, shape, sum(count), sum(lost), sum(lost_ms), max(last)
FROM rollup_breaks {STEP_SCOPE} GROUP BY 1, 2
"""  # noqa: S608
_BREAKS = """
WITH f (reason, shape, count, lost, lost_ms, last) AS ({source})
SELECT r.text AS reason, s.text AS shape, f.count, CAST(f.lost AS INTEGER) AS lost,
    f.lost / nullif(k.tokens, 0) AS share, f.lost_ms / 1e3 AS seconds, e.place,
    iif(f.last >= :first, e.number, NULL) AS number
FROM f JOIN (SELECT total(reused) + total(evaluated) AS tokens FROM {table}) AS k
JOIN words AS r ON r.id = f.reason LEFT JOIN words AS s ON s.id = f.shape
LEFT JOIN exchanges AS e ON e.id = f.last
ORDER BY f.lost DESC, f.count DESC
"""
_OF_BUCKET = ("requests", "breaks", "prompt", "reused", "evaluated", "lost")
_OF_WINDOW = ("turns", "output", "spared", "unpriced")


def overview(store: Store, name: str, now: int) -> Json:
    """Return sums and series of the window ``name`` (one of WINDOWS) that ends ``now`` (ms).

    Times are seconds since the epoch, lengths seconds. ``series``: buckets in which something
    happened, of the exchanges; ``server``: of the upstream's own counters, whoever asked it.
    Raises KeyError for a window there is not.
    """
    window = WINDOWS[name]
    scope = scope_of(window, now)
    rows = store.rows(_FROM_ROLLUPS if window.step else _FROM_ROWS, scope)
    sums = {key: sum(int(each[key]) for each in rows) for key in SUMS}
    sums |= {key: max((each[key] for each in rows), default=0) for key in LONGEST}
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
        "series": [{"at": each["at"] / 1e3, **_bucket(each)} for each in rows],
        "server": [_server(row) for row in store.rows(_SERVER, scope)],
    }


def breaks(store: Store, name: str, now: int) -> list[Json]:
    """Return why the cache broke in the window: reason and shape, the dearest first.

    ``lost`` in tokens, ``share`` of the window's prompt tokens (None if no server told both),
    ``seconds`` those their evaluation took, ``place`` and ``number`` of the latest; ``number`` is
    None if that was before the proxy started.
    """
    window = WINDOWS[name]
    source, table = (
        (_BREAKS_OF_ROLLUPS, f"rollups {STEP_SCOPE}")
        if window.step
        else (_BREAKS_OF_ROWS, f"exchanges {SCOPE}")
    )
    scope = {**scope_of(window, now), "first": store.first}
    return store.rows(_BREAKS.format(source=source, table=table), scope)


def scope_of(window: Window, now: int) -> dict[str, int]:
    """Return what SCOPE and STEP_SCOPE ask for, of the window that ends ``now``."""
    start = window.start(now)
    return {
        "start": start,
        "end": start + window.length,
        "bucket": window.bucket,
        "step": window.step,
    }


def _shown(sums: Json) -> Json:
    return _bucket(sums) | {
        **{name: int(sums[name]) for name in _OF_WINDOW},
        "errors": int(sums["failed"]),
        "spared_seconds": sums["spared_ms"] / 1e3,
    }


def _bucket(sums: Json) -> Json:
    return {name: int(sums[name]) for name in _OF_BUCKET} | {
        "first_worst": sums["first_ms"] / 1e3 if sums["first_ms"] else None,
        "prefill_speed": _speed(sums["timed_prompt"], sums["prompt_ms"]),
        "generation_speed": _speed(sums["timed_output"], sums["output_ms"]),
        "context": sums["context"] or None,
    }


def _speed(tokens: float, milliseconds: float) -> float | None:
    return tokens * 1e3 / milliseconds if tokens and milliseconds else None


def _server(found: Json) -> Json:
    return found | {
        "prefill_speed": prefill_of(found["evaluated"], found.pop("prefill")),
        "generation_speed": generation_of(found["generated"], found.pop("generation")),
    }


def _median_first(store: Store, window: Window, scope: dict[str, int]) -> float | None:
    """Return the median wait of a turn for its first byte: exact, or within 9 %."""
    execute = store.connection.execute
    if not window.step:
        waits = execute(
            f"SELECT first_ms FROM exchanges {SCOPE} "  # noqa: S608
            "AND turn > 0 AND first_ms IS NOT NULL",
            scope,
        ).fetchall()
        return median(wait for (wait,) in waits) / 1e3 if waits else None
    classes = execute(
        "SELECT class, sum(count) FROM rollup_firsts "  # noqa: S608
        f"{STEP_SCOPE} GROUP BY 1 ORDER BY 1",
        scope,
    ).fetchall()
    left = sum(count for _, count in classes) / 2
    for number, count in classes:
        left -= count
        if left <= 0:
            return class_middle(number) / 1e3
    return None
