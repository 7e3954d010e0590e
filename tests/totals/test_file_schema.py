"""From every older version to the newest: as if it had been that all the time."""

import sqlite3

import pytest

from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.totals.file import LATEST, migrate
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.sums import EVER, STEPS, class_middle, first_class
from tests import transcript

from .builders import NOW, keep, record, store_in

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


def opened(folder, *records, change=""):
    """Open a file, keep these, and close it; ``change``: what another program did to its tables."""
    store = store_in(folder)
    keep(store, *records)
    for statement in filter(None, change.split(";")):
        store.connection.execute(statement)
    store.connection.close()
    return store


def test_what_becomes_of_older_files(tmp_path):
    transcript.holds("schema.txt", globals() | {"folder": tmp_path})


@pytest.mark.parametrize("wait", [0, 1, 7, 100, 38_100, 10**7])
def test_a_class_is_near_its_waits(wait):
    assert class_middle(first_class(wait)) == pytest.approx(max(1, wait), rel=0.1)
