"""What is kept how long: detail goes with age, sums stay, the file does not grow for ever."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.sums import EVER, ROLLUPS, STEPS

_DAY = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Keep:
    """How long detail is kept."""

    exchanges: int = 31 * _DAY  #: rows, and sessions without any later one, in ms
    minutes: int = 3 * _DAY  #: sums by minutes, in ms
    hours: int = 5 * 366 * _DAY  #: sums by hours, in ms
    size: int = 512 << 20  #: bytes that the file may hold before the oldest rows go, however young


DEFAULT = Keep()
_FASTEST = 60
"""How much faster than the time that passes detail may age: a month of it takes half a day."""
_MOST_AT_ONCE = 2_000
"""Rows deleted in one go: the thread has other work."""


def tidy(store: TotalsStore, now: int, keep: Keep = DEFAULT) -> bool:
    """Thin and delete what is old at ``now`` (ms since the epoch); whether more is left to do.

    Lifetime totals are not touched.
    """
    execute = store.connection.execute
    store.flush()  # what has just come may be old, too
    for each in ROLLUPS:
        for step, age in zip(STEPS, (keep.minutes, keep.hours), strict=True):
            execute(
                f"DELETE FROM {each.table} WHERE step = ? AND at < ?",  # noqa: S608 - our own names
                (step, now - age),
            )
    more = _delete_rows(store, now - keep.exchanges)
    if _used(store) > keep.size:
        more = _delete_rows(store, EVER) or more
    if execute("DELETE FROM sessions WHERE last < ?", (now - keep.exchanges,)).rowcount:
        store.forget_numbers()
    execute("PRAGMA incremental_vacuum(500)").fetchall()
    return more


class Age:
    """The time by which detail ages: the wall clock's, but it jumps back alone.

    A clock that was a year ahead for some hours would else have cost all detail.
    """

    def __init__(self) -> None:
        self._at: int | None = None
        self._moment = 0.0

    def __call__(self, store: TotalsStore, now: int, moment: float) -> int:
        """Return it. ``now``: ms of the wall clock; ``moment``: s of the one that never jumps."""
        passed, self._moment = moment - self._moment, moment
        if self._at is None:
            (self._at,) = store.connection.execute("SELECT max(at) FROM exchanges").fetchone()
        elif now > self._at:
            self._at = min(now, self._at + round(passed * 1000 * _FASTEST))
        return now if self._at is None else min(now, self._at)


def _delete_rows(store: TotalsStore, until: int) -> bool:
    """Delete a number of the oldest rows from before ``until``; whether there may be more."""
    deleted = store.connection.execute(
        "DELETE FROM exchanges WHERE id IN ("
        "SELECT id FROM exchanges WHERE at < ? ORDER BY at LIMIT ?)",
        (until, _MOST_AT_ONCE),
    ).rowcount
    return deleted >= _MOST_AT_ONCE


def _used(store: TotalsStore) -> int:
    """Return the bytes of the file that hold something."""
    pages, free, size = (
        store.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
