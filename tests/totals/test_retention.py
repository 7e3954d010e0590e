"""What goes with age, what stays, and how large the file gets."""

from __future__ import annotations

import random

import pytest

from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.totals.retention import DEFAULT, Keep, tidy
from cacheproxy.totals.snapshot import lifetime
from cacheproxy.totals.windows import overview

from .builders import MS, NOW, keep, look, record

pytestmark = pytest.mark.slow

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
SUMS = "SELECT total(evaluated), total(generated), total(looks), total(running) FROM samples"


def one(store, sql, *parameters):
    return store.connection.execute(sql, parameters).fetchone()


def steps(store):
    return dict(store.connection.execute("SELECT step, count(*) FROM samples GROUP BY step"))


def tidy_all(store, now, kept=DEFAULT):
    for _ in range(1000):
        store.connection.execute("BEGIN")
        more = tidy(store, now, kept)
        store.connection.execute("COMMIT")
        if not more:
            return
    raise AssertionError("it never ends")


def test_a_year_of_looks(store):
    """Fine where it is fresh, coarse where it is old; the sums stay what they were."""
    random_ = random.Random(1)
    evaluated, looks = 0, 0
    now = MS
    for _ in range(366):
        bursts = (now + hour * HOUR + random_.randrange(HOUR) for hour in range(0, 24, 3))
        for burst in bursts:
            for second in range(6):
                evaluated += random_.randrange(100)
                looks += 1
                at = (burst + second * SECOND) / 1000
                store.look(look(at, evaluated=float(evaluated), generated=1.0))
        now += DAY
        tidy_all(store, now)
    assert one(store, SUMS) == (evaluated, 1, looks, looks)
    assert one(store, "SELECT counters FROM lifetime WHERE figure = 'evaluated'") == (evaluated,)
    found = steps(store)
    assert found.get(SECOND, 0) <= 6
    assert found[10 * SECOND] <= 24
    assert found[MINUTE] <= 2 * 8 * 3
    assert 8 * 360 <= found[HOUR] <= 8 * 366
    newest, oldest = (
        one(store, f"SELECT {which}(at) FROM samples WHERE step = ?", HOUR)[0]
        for which in ("max", "min")
    )
    assert now - newest >= 3 * DAY
    assert oldest < MS + DAY


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
        store.look(look(wall))
        now = MS + day * DAY + HOUR
        tidy_all(store, now)
    count = 366 * 21
    assert lifetime(store)["all"]["exchanges"] == count
    assert lifetime(store)["all"]["breaks"]["evicted"]["count"] == 366
    assert one(store, "SELECT count(*) FROM exchanges")[0] <= 32 * 21
    assert one(store, "SELECT min(at) FROM exchanges")[0] >= now - 31 * DAY
    assert one(store, "SELECT count(*) FROM sessions")[0] <= 32 * 21
    by_step = "SELECT sum(requests), min(at) FROM rollups WHERE step = ?"
    assert one(store, by_step, HOUR) == (count, MS // HOUR * HOUR)
    assert one(store, by_step, MINUTE)[1] >= now - 3 * DAY
    assert one(store, "SELECT sum(count) FROM rollup_breaks WHERE step = ?", HOUR) == (366,)
    assert overview(store, "30d", now)["sums"]["requests"] == 30 * 21


def test_exchanges_that_no_total_counts_yet_are_kept(store):
    """However old: their upstream has not been seen since."""
    keep(store, record(), record(upstream="http://other:1"))
    store.look(look())
    tidy_all(store, MS + 365 * DAY)
    rows = store.connection.execute(
        "SELECT url FROM exchanges JOIN upstreams ON upstreams.id = upstream"
    ).fetchall()
    assert rows == [("http://other:1",)]
    assert lifetime(store)["waiting"]["exchanges"] == 1


def test_what_a_clock_that_was_ahead_dated_keeps_nothing_else(store):
    """More than is deleted in one go."""
    keep(store, *(record(wall=NOW + 365 * 86_400) for _ in range(2000)), record())
    store.look(look())
    tidy_all(store, MS + 32 * DAY)
    assert one(store, "SELECT count(*) FROM exchanges WHERE at = ?", MS) == (0,)


def test_the_file_stays_small(store, tmp_path):
    """Where more comes than its size has room for, the oldest rows go, however young."""
    kept = Keep(size=1 << 20)
    path = tmp_path / "state" / "totals.db"
    sizes = []
    for turn in range(12):
        store.connection.execute("BEGIN")
        keep(store, *(record(number=n, session=f"s{n % 9}") for n in range(3000)))
        store.look(look())
        store.connection.execute("COMMIT")
        tidy_all(store, MS, kept)
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        sizes.append(path.stat().st_size)
        assert turn > 0 or sizes[0] > 100_000
    assert max(sizes) < 3 << 20
    assert lifetime(store)["all"]["exchanges"] == 36_000
    assert one(store, "SELECT sum(requests) FROM rollups WHERE step = ?", HOUR) == (36_000,)
    assert one(store, "SELECT max(id) FROM exchanges") == (36_000,)


@pytest.mark.parametrize("jump", [-365 * DAY, 365 * DAY])
def test_a_clock_that_jumps_never_costs_totals(store, jump):
    """It may cost detail."""
    keep(store, record())
    store.look(look(evaluated=100.0))
    tidy_all(store, MS + jump)
    keep(store, record())
    store.look(look(evaluated=200.0))
    tidy_all(store, MS)
    assert lifetime(store)["all"]["figures"]["evaluated"]["value"] == 200
    assert lifetime(store)["all"]["exchanges"] == 2


def test_a_session_that_was_forgotten_may_come_again(store):
    keep(store, record(session="s"))
    store.look(look())
    tidy_all(store, MS + 60 * DAY)
    assert one(store, "SELECT count(*) FROM sessions") == (0,)
    keep(store, record(session="s", wall=NOW + 60 * 86_400))
    assert one(store, "SELECT name, requests FROM sessions") == ("s", 1)
