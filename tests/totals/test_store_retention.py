"""What goes with age, what stays, and how large the file gets."""

import pytest

from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.totals.store import DEFAULT, Keep, tidy
from cacheproxy.totals.windows import lifetime, overview

from .builders import MS, NOW, keep, record

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def one(store, sql, *parameters):
    return store.connection.execute(sql, parameters).fetchone()


def tidy_all(store, now, kept=DEFAULT):
    for _ in range(1000):
        store.connection.execute("BEGIN")
        more = tidy(store, now, kept)
        store.connection.execute("COMMIT")
        if not more:
            return
    raise AssertionError("it never ends")


@pytest.mark.slow
def test_a_year_of_exchanges(store):
    """Rows stay for 31 days, sums by the minute for 3, by the hour for years; totals for ever."""
    now = MS
    for day in range(366):
        wall = NOW + 86_400 * day
        each = [
            record(wall=wall + 60 * n, session=f"{day}-{n}", number=n, reason=None)
            for n in range(20)
        ]
        keep(store, *each, record(wall=wall, reason=Reason.EVICTED, lost=10, session=f"{day}"))
        now = MS + day * DAY + HOUR
        tidy_all(store, now)
    count = 366 * 21
    assert (lifetime(store)["requests"], lifetime(store)["breaks"]) == (count, 366)
    assert one(store, "SELECT count(*) FROM exchanges")[0] <= 32 * 21
    assert one(store, "SELECT min(at) FROM exchanges")[0] >= now - 31 * DAY
    assert one(store, "SELECT count(*) FROM sessions")[0] <= 32 * 21
    by_step = "SELECT sum(requests), min(at) FROM rollups WHERE step = ?"
    assert one(store, by_step, HOUR) == (count, MS // HOUR * HOUR)
    assert one(store, by_step, MINUTE)[1] >= now - 3 * DAY
    assert one(store, "SELECT sum(count) FROM rollup_breaks WHERE step = ?", HOUR) == (366,)
    assert overview(store, "30d", now)["sums"]["requests"] == 30 * 21


@pytest.mark.parametrize("kept", [Keep(exchanges=0), Keep(size=0)])
def test_the_oldest_rows_go_first(store, kept):
    """Not all in one go, and whichever came first."""
    keep(store, *(record(wall=NOW - second) for second in range(2003)))
    assert tidy(store, MS + HOUR, kept)
    assert one(store, "SELECT count(*), max(at), min(at) FROM exchanges") == (3, MS, MS - 2000)


def test_what_a_clock_that_was_ahead_dated_keeps_nothing_else(store):
    """More than is deleted in one go."""
    keep(store, *(record(wall=NOW + 365 * 86_400) for _ in range(2000)), record())
    tidy_all(store, MS + 32 * DAY)
    assert one(store, "SELECT count(*) FROM exchanges WHERE at = ?", MS) == (0,)


@pytest.mark.slow
def test_the_file_stays_small(store, tmp_path):
    """Where more comes than its size has room for, the oldest rows go, however young."""
    kept = Keep(size=1 << 20)
    path = tmp_path / "state" / "totals.db"
    sizes = []
    for turn in range(12):
        store.connection.execute("BEGIN")
        keep(store, *(record(number=n, session=f"s{n % 9}") for n in range(3000)))
        store.connection.execute("COMMIT")
        tidy_all(store, MS, kept)
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        sizes.append(path.stat().st_size)
        assert turn > 0 or sizes[0] > 100_000
    assert max(sizes) < 3 << 20
    assert lifetime(store)["requests"] == 36_000
    assert one(store, "SELECT sum(requests) FROM rollups WHERE step = ?", HOUR) == (36_000,)
    assert one(store, "SELECT max(id) FROM exchanges") == (36_000,)


@pytest.mark.parametrize("jump", [-365 * DAY, 365 * DAY])
def test_a_clock_that_jumps_never_costs_totals(store, jump):
    """It may cost detail."""
    keep(store, record())
    tidy_all(store, MS + jump)
    keep(store, record())
    tidy_all(store, MS)
    assert (lifetime(store)["requests"], lifetime(store)["evaluated"]) == (2, 200)


def test_a_session_that_was_forgotten_may_come_again(store):
    keep(store, record(session="s"))
    tidy_all(store, MS + 60 * DAY)
    assert one(store, "SELECT count(*) FROM sessions") == (0,)
    keep(store, record(session="s", wall=NOW + 60 * 86_400))
    assert one(store, "SELECT name, requests FROM sessions") == ("s", 1)
