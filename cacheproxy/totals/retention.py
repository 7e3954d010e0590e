"""What is kept how long: detail goes with age, sums stay, the file does not grow for ever."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.totals.samples import ADD_SAMPLES, SAMPLE_COLUMNS, SAMPLE_STEPS
from cacheproxy.totals.store import Store
from cacheproxy.totals.sums import SUM_TABLES

_MINUTE = 60_000
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_EVER = 1 << 62

_SUMS = ", ".join(f"sum({name})" for name in SAMPLE_COLUMNS)
_THIN = (
    f"INSERT INTO samples (step, upstream, at, {', '.join(SAMPLE_COLUMNS)}) "  # noqa: S608
    f"SELECT :coarse, upstream, at / :coarse * :coarse, {_SUMS} "
    "FROM samples WHERE step = :fine AND at < :until GROUP BY upstream, at / :coarse "
    f"{ADD_SAMPLES}"
)
_SETTLE = """
UPDATE upstreams SET settled = max(settled, (SELECT ifnull(max(id), 0) FROM exchanges))
WHERE NOT EXISTS (SELECT 1 FROM exchanges WHERE exchanges.id > settled AND upstream = upstreams.id)
"""
"""Whoever asks what waits for an upstream reads what has come since: others' requests as well."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How long detail is kept, in milliseconds; ``size`` in bytes.

    ``samples``: for each step, how long until the next coarser one; the last: until it is gone.
    ``exchanges``: rows, and sessions without any later one. ``minutes``, ``hours``: sums by them.
    ``size``: what the file may hold before the oldest rows go, however young.
    """

    samples: tuple[tuple[int, int], ...] = tuple(
        zip(SAMPLE_STEPS, (_HOUR, 6 * _HOUR, 3 * _DAY, 5 * 366 * _DAY), strict=True)
    )
    exchanges: int = 31 * _DAY
    minutes: int = 3 * _DAY
    hours: int = 5 * 366 * _DAY
    size: int = 512 << 20


DEFAULT = Keep()
_FASTEST = 60
"""How much faster than the time that passes detail may age: a month of it takes half a day."""
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
    for table in SUM_TABLES:
        for step, age in ((_MINUTE, keep.minutes), (_HOUR, keep.hours)):
            execute(
                f"DELETE FROM {table} WHERE step = ? AND at < ?",  # noqa: S608 - our own names
                (step, now - age),
            )
    execute(_SETTLE)
    more = _delete_rows(store, now - keep.exchanges)
    if _used(store) > keep.size:
        more = _delete_rows(store, _EVER) or more
    sessions = execute("DELETE FROM sessions WHERE last < ?", (now - keep.exchanges,)).rowcount
    if sessions:
        store.names.forget()
    execute("PRAGMA incremental_vacuum(500)").fetchall()
    return more


class Age:
    """The time by which detail ages: the wall clock's, but it jumps back alone.

    A clock that was a year ahead for some hours would else have cost all detail.
    """

    def __init__(self) -> None:
        self._at: int | None = None
        self._moment = 0.0

    def __call__(self, store: Store, now: int, moment: float) -> int:
        """Return it. ``now``: ms of the wall clock; ``moment``: s of the one that never jumps."""
        passed, self._moment = moment - self._moment, moment
        if self._at is None:
            (self._at,) = store.connection.execute("SELECT max(at) FROM exchanges").fetchone()
        elif now > self._at:
            self._at = min(now, self._at + round(passed * 1000 * _FASTEST))
        return now if self._at is None else min(now, self._at)


def _delete_rows(store: Store, until: int) -> bool:
    """Delete a number of the oldest rows from before ``until``; whether there may be more."""
    deleted = store.connection.execute(
        "DELETE FROM exchanges WHERE id IN ("
        "SELECT exchanges.id FROM exchanges JOIN upstreams ON upstreams.id = upstream "
        "WHERE exchanges.id <= settled AND at < ? ORDER BY at LIMIT ?)",
        (until, _MOST_AT_ONCE),
    ).rowcount
    return deleted >= _MOST_AT_ONCE


def _used(store: Store) -> int:
    """Return the bytes of the file that hold something."""
    pages, free, size = (
        store.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
