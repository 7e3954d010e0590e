"""What is kept how long: detail goes with age, sums stay, the file does not grow for ever."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.totals.samples import ADD_SAMPLES, SAMPLE_COLUMNS
from cacheproxy.totals.store import Store

_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

_SUMS = ", ".join(f"sum({name})" for name in SAMPLE_COLUMNS)
_THIN = (
    f"INSERT INTO samples (step, upstream, at, {', '.join(SAMPLE_COLUMNS)}) "  # noqa: S608
    f"SELECT :coarse, upstream, at / :coarse * :coarse, {_SUMS} "
    "FROM samples WHERE step = :fine AND at < :until GROUP BY upstream, at / :coarse "
    f"{ADD_SAMPLES}"
)


@dataclass(frozen=True, slots=True)
class Keep:
    """How long detail is kept, in milliseconds; ``size`` in bytes.

    ``samples``: for each step, how long until the next coarser one; the last: until it is gone.
    ``exchanges``: rows, and sessions without any later one. ``minutes``, ``hours``: sums by them.
    ``size``: what the file may hold before the oldest rows go, however young.
    """

    samples: tuple[tuple[int, int], ...] = (
        (_SECOND, _HOUR),
        (10 * _SECOND, 6 * _HOUR),
        (_MINUTE, 3 * _DAY),
        (_HOUR, 5 * 366 * _DAY),
    )
    exchanges: int = 31 * _DAY
    minutes: int = 3 * _DAY
    hours: int = 5 * 366 * _DAY
    size: int = 512 << 20


DEFAULT = Keep()
_MOST_AT_ONCE = 2_000
"""Rows deleted in one go: the thread has other work."""


def tidy(store: Store, now: int, keep: Keep = DEFAULT) -> bool:
    """Thin and delete what is old at ``now`` (ms since the epoch); whether more is left to do.

    Lifetime totals are not touched. Exchanges that no total counts yet are kept.
    """
    execute = store.connection.execute
    store.flush()  # what has just come may be old, too
    for (fine, age), (coarse, _) in zip(keep.samples, keep.samples[1:], strict=False):
        until = (now - age) // coarse * coarse
        execute(_THIN, {"fine": fine, "coarse": coarse, "until": until})
        execute("DELETE FROM samples WHERE step = ? AND at < ?", (fine, until))
    step, age = keep.samples[-1]
    execute("DELETE FROM samples WHERE step = ? AND at < ?", (step, now - age))
    for table in ("rollups", "rollup_firsts", "rollup_breaks"):
        for step, age in ((_MINUTE, keep.minutes), (_HOUR, keep.hours)):
            execute(
                f"DELETE FROM {table} WHERE step = ? AND at < ?",  # noqa: S608 - our own names
                (step, now - age),
            )
    more = _delete_rows(store, now - keep.exchanges)
    if _used(store) > keep.size:
        more = _delete_rows(store, None) or more
    sessions = execute("DELETE FROM sessions WHERE last < ?", (now - keep.exchanges,)).rowcount
    if sessions:
        store.names.forget()
    execute("PRAGMA incremental_vacuum(500)").fetchall()
    return more


def _delete_rows(store: Store, until: int | None) -> bool:
    """Delete the oldest rows, those from before ``until`` or a number of them."""
    deleted = store.connection.execute(
        "DELETE FROM exchanges WHERE id IN ("
        "SELECT exchanges.id FROM exchanges JOIN upstreams ON upstreams.id = upstream "
        "WHERE exchanges.id <= settled ORDER BY exchanges.id LIMIT ?) AND (? IS NULL OR at < ?)",
        (_MOST_AT_ONCE, until, until),
    ).rowcount
    return deleted >= _MOST_AT_ONCE


def _used(store: Store) -> int:
    """Return the bytes of the file that hold something."""
    pages, free, size = (
        store.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
