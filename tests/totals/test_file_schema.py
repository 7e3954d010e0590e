"""From every older version to the newest: as if it had been that all the time."""

from __future__ import annotations

import sqlite3

import pytest

from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.totals.file import LATEST, migrate
from cacheproxy.totals.lists import requests
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.sums import EVER, STEPS, class_middle, first_class
from cacheproxy.totals.windows import lifetime, overview

from .builders import MS, NOW, URL, keep, record, store_in

RECORDS = [
    record(
        number=number,
        wall=NOW + 37 * number,
        session=f"s{number % 3}",
        first_ms=None if number % 5 == 0 else round(10 * 1.3**number),
        prompt_ms=None if number % 4 == 0 else 500,
        reused=None if number % 7 == 0 else 900,
        evaluated=None if number % 7 == 0 else 100,
        reason=Reason.EVICTED if number % 6 == 0 else None,
        shape="date" if number % 12 == 0 else None,
        side=number % 10 == 0,
        lost=100 if number % 6 == 0 else None,
        failed=number % 9 == 0,
        turn=0 if number % 8 == 0 else number,
        added_us=None if number % 11 == 0 else 1000,
        output=1 if number % 13 == 0 else 50,
        output_ms=0 if number % 13 == 0 else 2000,
        spared=number % 3 * 100,
        spared_ms=number % 3 * 500,
    )
    for number in range(1, 60)
]
SUMS = ("rollups", "rollup_firsts", "rollup_breaks")
TABLES = (*SUMS, "rollup_groups", "sessions")
LEFT = {"under_way": "0", "metrics": "'on'", "last_seen": "1", "reading": "'{}'", "settled": "0"}
"""Columns that there were, and what stood in them."""


def contents(connection):
    return {
        table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4, 5").fetchall()
        for table in TABLES
    }


HOUR = STEPS[1]
OF_HOURS = f"FROM rollups WHERE step = {HOUR} ORDER BY at"


def schema(connection):
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    ).fetchall()


@pytest.fixture
def newest():
    """A file that has been of the newest version all the time."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    store = TotalsStore(connection)
    keep(store, *RECORDS)
    return connection


@pytest.mark.parametrize("version", range(LATEST))
def test_a_file_of_an_older_version_becomes_one_of_the_newest(newest, version):
    """With the same schema, and with the sums over what was recorded before."""
    old = sqlite3.connect(":memory:", isolation_level=None)
    assert migrate(old, upto=version) == 0
    if version:
        kept = ["words", "sessions", "upstreams", "exchanges"]
        kept += SUMS if version > 1 else ()
        kept += ["rollup_groups"] if version > 4 else ()
        for table in kept:
            columns = [row[1] for row in old.execute(f"PRAGMA table_info({table})")]
            since = {row[1] for row in newest.execute(f"PRAGMA table_info({table})")}
            taken = ", ".join(name if name in since else LEFT[name] for name in columns)
            rows = newest.execute(f"SELECT {taken} FROM {table}").fetchall()
            marks = ", ".join("?" * len(columns))
            old.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)
            if table == "rollups":
                old.execute(f"DELETE FROM rollups WHERE step = {EVER}")
        old.execute("INSERT INTO targets VALUES (1, 1, 'm', 0)")
        old.execute(  # five milliseconds a token
            "INSERT INTO lifetime VALUES (1, 'spared', 0, 1), (1, 'spared_seconds', 0, 0.005)"
        )
    assert migrate(old) == version
    assert schema(old) == schema(newest)
    assert old.execute("PRAGMA user_version").fetchone() == (LATEST,)
    assert old.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    if version:
        assert contents(old) == contents(newest)
        assert contents(old)["rollup_breaks"]


def old_file(*spared, waiting=0.0, seconds=None):
    """A file of version 2: exchanges an hour apart, and what the totals say of them."""
    old = sqlite3.connect(":memory:", isolation_level=None)
    migrate(old, upto=2)
    old.execute("INSERT INTO upstreams (id, url, first_seen) VALUES (1, 'u', 0)")
    old.execute("INSERT INTO targets VALUES (1, 1, 'm', 0)")
    old.executemany(
        "INSERT INTO exchanges (at, number, upstream, outcome, turn, side, failed, under_way, "
        "total_ms, up, down, spared, evaluated, prompt_ms, output, output_ms) "
        "VALUES (?, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, ?, 25, 500, 1, 1)",
        [(HOUR * number, tokens) for number, tokens in enumerate(spared)],
    )
    names = "requests, turns, failed, breaks, prompt, reused, evaluated, output, lost, spared, "
    names += "timed_prompt, prompt_ms, timed_output, output_ms, first_ms, added_us, sent"
    old.executemany(
        f"INSERT INTO rollups (step, upstream, at, {names}) VALUES "
        f"({HOUR}, 1, ?, 1, 1, 0, 0, 9, 9, 9, 9, 0, ?, 25, 500, 1, 1, 0, 0, 0)",
        [(HOUR * number, tokens or 0) for number, tokens in enumerate(spared)],
    )
    figures = {"spared": sum(filter(None, spared)), "spared_waiting": waiting, "speed_tokens": 9.0}
    figures |= {} if seconds is None else {"spared_seconds": seconds}
    old.executemany(
        "INSERT INTO lifetime VALUES (1, ?, 0, ?)", [each for each in figures.items() if each[1]]
    )
    return old


def test_what_was_spared_before_is_priced_as_the_totals_had_it():
    """Once: all windows add up to what the lifetime totals said, and go on saying."""
    old = old_file(1000, None, 0, 3000, -400, seconds=9.0)
    migrate(old)
    prices = [row[0] for row in old.execute("SELECT spared_ms FROM exchanges ORDER BY id")]
    assert prices == [2500, None, 0, 7500, -1000]
    hours = [row[0] for row in old.execute(f"SELECT spared_ms {OF_HOURS}")]
    assert hours == [2500, 0, 0, 7500, -1000]
    found = lifetime(TotalsStore(old))
    assert (found["spared"], found["spared_seconds"], found["unpriced"]) == (3600, 9.0, 0)


def test_what_had_no_price_has_none():
    old = old_file(1000, 200, waiting=1200.0)
    migrate(old)
    assert old.execute("SELECT spared_ms FROM exchanges").fetchall() == [(None,), (None,)]
    hours = old.execute(f"SELECT spared_ms, unpriced {OF_HOURS}").fetchall()
    assert hours == [(0, 1000), (0, 200)]
    found = lifetime(TotalsStore(old))
    assert (found["spared"], found["spared_seconds"], found["unpriced"]) == (1200, 0.0, 1200)


def test_what_the_servers_counters_told_is_no_more_in_the_lifetime():
    """They had others' requests, and those from before the proxy was there."""
    old = old_file(0, 0, 0)
    migrate(old, upto=5)
    old.execute("INSERT INTO lifetime VALUES (1, 'prompt', 166300, 0)")
    old.execute("INSERT INTO samples (step, upstream, at, looks, prompt) VALUES (1, 1, 0, 1, 9)")
    old.execute("INSERT INTO upstreams (url, first_seen, reading) VALUES (?, ?, '{}')", (URL, MS))
    migrate(old)
    found = lifetime(TotalsStore(old))
    assert (found["requests"], found["prompt"], found["since"]) == (3, 27, 0)
    store = TotalsStore(old)
    keep(store, record())
    assert (lifetime(store)["requests"], lifetime(store)["prompt"]) == (4, 1027)


def test_speeds_of_before_are_of_answers_that_tell_one():
    """As far back as there are exchanges; older sums stay."""
    old = old_file(0, 0)
    old.execute("DELETE FROM exchanges WHERE at = 0")
    migrate(old)
    found = old.execute(f"SELECT timed_prompt, prompt_ms, timed_output, output_ms {OF_HOURS}")
    assert found.fetchall() == [(25, 500, 1, 1), (0, 0, 0, 0)]


def test_a_migration_that_fails_leaves_the_file_as_it_was():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, upto=1)
    connection.execute("CREATE TABLE rollup_breaks (mine)")  # in the way of 002
    before = schema(connection)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection)
    assert schema(connection) == before
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.parametrize("wait", [0, 1, 7, 100, 38_100, 10**7])
def test_a_class_is_near_its_waits(wait):
    assert class_middle(first_class(wait)) == pytest.approx(max(1, wait), rel=0.1)


def test_a_column_that_has_come_since_is_added(tmp_path):
    """By a row in ``record.kept``: it is kept, added up and shown from then on; no new version."""
    store = store_in(tmp_path)
    keep(store, record(number=1))
    for column in ("exchanges added_us", "rollups added_us", "rollups sent", "sessions output"):
        store.connection.execute("ALTER TABLE {} DROP COLUMN {}".format(*column.split()))
    store.connection.close()
    store = store_in(tmp_path)
    keep(store, record(number=2, added_us=7000, output=5))
    assert [each["added"] for each in requests(store)["requests"]] == [0.007, None]
    assert overview(store, "1h", MS)["sums"]["added"] == 0.007
    assert store.rows("SELECT output FROM sessions") == [{"output": 5}]
    store.connection.close()


def test_a_column_of_a_newer_program_is_left_alone(tmp_path):
    """Whoever goes back to an older one keeps the file."""
    store = store_in(tmp_path)
    keep(store, record(number=1))
    for table in ("exchanges", "rollups", "sessions"):
        store.connection.execute(f"ALTER TABLE {table} ADD COLUMN newer INTEGER NOT NULL DEFAULT 7")
    store.connection.close()
    store = store_in(tmp_path)
    keep(store, record(number=2))
    assert [each["number"] for each in requests(store)["requests"]] == [2, None]
    assert "newer" not in requests(store)["requests"][0]
    assert lifetime(store)["requests"] == 2
    store.connection.close()
