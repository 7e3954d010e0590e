"""From every older version to the newest: as if it had been that all the time."""

from __future__ import annotations

import sqlite3

import pytest

from cacheproxy.core.verdict import Reason
from cacheproxy.totals.migrations import LATEST, class_middle, first_class, migrate
from cacheproxy.totals.store import Store

from .builders import NOW, keep, look, record

RECORDS = [
    record(
        number=number,
        wall=NOW + 37 * number,
        session=f"s{number % 3}",
        first_byte=None if number % 5 == 0 else 0.01 * 1.3**number,
        prompt_seconds=None if number % 4 == 0 else 0.5,
        reused=None if number % 7 == 0 else 900,
        evaluated=None if number % 7 == 0 else 100,
        reason=Reason.EVICTED if number % 6 == 0 else None,
        shape="date" if number % 12 == 0 else None,
        side=number % 10 == 0,
        lost=100 if number % 6 == 0 else None,
        failed=number % 9 == 0,
        turn=0 if number % 8 == 0 else number,
        added=None if number % 11 == 0 else 0.001,
    )
    for number in range(1, 60)
]
TABLES = ("rollups", "rollup_firsts", "rollup_breaks")


def contents(connection):
    return {
        table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4, 5").fetchall()
        for table in TABLES
    }


def schema(connection):
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    ).fetchall()


@pytest.fixture
def newest():
    """A file that has been of the newest version all the time."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    store = Store(connection)
    keep(store, *RECORDS)
    store.look(look(evaluated=5.0))
    return connection


@pytest.mark.parametrize("version", range(LATEST))
def test_a_file_of_an_older_version_becomes_one_of_the_newest(newest, version):
    """With the same schema, and with the sums over what was recorded before."""
    old = sqlite3.connect(":memory:", isolation_level=None)
    assert migrate(old, upto=version) == 0
    if version:
        for table in ("words", "sessions", "upstreams", "exchanges", "samples", "lifetime"):
            rows = newest.execute(f"SELECT * FROM {table}").fetchall()
            marks = ", ".join("?" * len(rows[0]))
            old.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    assert migrate(old) == version
    assert schema(old) == schema(newest)
    assert old.execute("PRAGMA user_version").fetchone() == (LATEST,)
    assert old.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    if version:
        assert contents(old) == contents(newest)
        assert contents(old)["rollup_breaks"]


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
