"""The thread that keeps the totals: in order, together, and whatever happens to the file."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cacheproxy.totals import database as module
from cacheproxy.totals.database import Database
from cacheproxy.totals.file import NAME
from cacheproxy.totals.migrations import TotalsError
from cacheproxy.totals.snapshot import lifetime
from tests.proxy.harness import eventually, running
from tests.turning import TurningReactor

from .builders import look, record, store_in


def put(database, *records):
    for each in records:
        database.put(lambda store, each=each: store.record(each))


def count(store):
    return store.connection.execute("SELECT count(*) FROM exchanges").fetchone()[0]


def rows(folder):
    store = store_in(folder)
    found = count(store)
    store.connection.close()
    return found


@pytest.fixture
def reactor():
    return TurningReactor()


@pytest.fixture
def database(reactor, tmp_path):
    database = Database(reactor, tmp_path)
    yield database
    database.close()


def ask(database, reactor, job):
    """What ``job`` returns, or raises."""
    found = []
    database.run(job).addBoth(found.append)
    reactor.turn_until(lambda: found)
    (result,) = found
    if hasattr(result, "raiseException"):
        result.raiseException()
    return result


def test_the_thread_comes_with_the_first_job(database, tmp_path):
    """It must: twistd forks after everything has been made."""
    before = threading.active_count()
    database.check()
    assert threading.active_count() == before
    put(database, record())
    assert threading.active_count() == before + 1


def test_a_question_sees_all_that_came_before_it(database, reactor):
    """Though nothing of it has been committed yet."""
    put(database, *(record(number=number) for number in range(100)))
    assert ask(database, reactor, count) == 100


def test_what_waits_is_written_when_it_closes(database, tmp_path):
    put(database, *(record(number=number) for number in range(100)))
    database.close()
    assert rows(tmp_path) == 100
    put(database, record())
    assert database.dropped == 1


def test_many_records_are_one_transaction(database, reactor):
    """A commit costs more than a hundred rows."""
    statements = []
    ask(database, reactor, lambda store: store.connection.set_trace_callback(statements.append))
    put(database, *(record(number=number) for number in range(50)))
    ask(database, reactor, count)
    eventually(lambda: statements.count("COMMIT") >= 2)
    assert statements.count("BEGIN") <= 3


def test_what_goes_wrong_with_one_record_costs_no_other(database, reactor, log):
    """Not even what that record had written already; the sums are those of the others."""
    put(database, record())

    def odd(store):
        store.record(record(number=77))
        raise ZeroDivisionError("a canary")

    database.put(odd)
    database.put(lambda store: store.record(record(turn=1 << 70)))
    put(database, record())
    assert ask(database, reactor, count) == 2
    sums = "SELECT sum(requests) FROM rollups WHERE step = 60000"
    assert ask(database, reactor, lambda store: store.connection.execute(sums).fetchone()) == (2,)
    assert database.dropped == 2
    assert any("ZeroDivisionError" in line for line in log)
    assert not any("canary" in line for line in log)


def test_a_file_that_fails_costs_what_was_written_with_it(database, reactor):
    """No row, no sum and no look of it stays; what came behind is written."""
    put(database, record(began=5.0))
    database.put(lambda store: store.look(look(moment=10.0, evaluated=1.0)))
    with pytest.raises(sqlite3.OperationalError):
        ask(database, reactor, lambda store: store.connection.execute("SELECT nothing"))
    assert database.dropped == 3
    put(database, record(began=5.0), record(began=5.0))
    assert ask(database, reactor, count) == 2
    sums = "SELECT sum(requests), (SELECT sum(under_way) FROM exchanges) FROM rollups"
    assert ask(database, reactor, lambda store: store.connection.execute(sums).fetchone()) == (4, 0)


def test_a_question_that_fails_says_so_to_who_asked(database, reactor):
    with pytest.raises(KeyError):
        ask(database, reactor, lambda store: {}["nothing"])
    assert ask(database, reactor, count) == 0


def test_what_waits_is_bounded(database, monkeypatch):
    monkeypatch.setattr(module, "_MOST_WAITING", 10)
    begun, gate = threading.Event(), threading.Event()
    database.put(lambda store: (begun.set(), gate.wait(60)))
    assert begun.wait(60)
    put(database, *(record() for _ in range(15)))
    gate.set()
    assert database.dropped == 5


def test_a_file_damaged_while_it_is_open_is_set_aside(database, reactor, tmp_path, log):
    """With one line; what comes then is kept in a new one."""
    put(database, *(record(number=number, session=f"s{number}") for number in range(2000)))
    ask(database, reactor, lambda store: store.connection.execute("SELECT 1"))

    def damage(store):
        store.connection.execute("COMMIT")
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        store.connection.execute("PRAGMA cache_size = 0")
        path = tmp_path / NAME
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (size - 4096))
        store.connection.execute("PRAGMA shrink_memory").fetchall()
        store.connection.execute("BEGIN")
        store.connection.execute("SAVEPOINT job")
        store.names.forget()

    database.put(damage)
    put(database, record())

    def set_aside():
        put(database, record())
        return list(tmp_path.glob("totals-damaged-*.db"))

    eventually(set_aside)
    put(database, record(number=4242))
    newest = "SELECT number FROM exchanges ORDER BY id DESC LIMIT 1"
    assert ask(database, reactor, lambda store: store.connection.execute(newest).fetchone()) == (
        4242,
    )
    reactor.turn()
    assert sum("set aside" in line for line in log) == 1


def test_a_file_that_another_process_has_is_waited_for(reactor, tmp_path, log, monkeypatch):
    """It may be draining: what comes in the meantime is kept."""
    monkeypatch.setattr(module, "_AGAIN", 0.05)
    other = store_in(tmp_path)
    database = Database(reactor, tmp_path)
    database.check()
    put(database, record())
    with pytest.raises(TotalsError, match="another cacheproxy is using"):
        ask(database, reactor, count)
    other.connection.close()

    def answered():
        try:
            return ask(database, reactor, count) == 1
        except TotalsError:
            return False

    eventually(answered)
    database.close()
    assert sum("another cacheproxy is using" in line for line in log) == 1


def test_a_damaged_file_at_the_start_is_one_line(reactor, tmp_path, log):
    (tmp_path / NAME).write_bytes(b"x" * 5000)
    Database(reactor, tmp_path).check()
    assert len(log) == 1
    assert "set aside" in log[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_it_keeps_what_it_wrote_down_and_opens(tmp_path, seed):
    """Whatever it said is there, and the totals are in step with the rows."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.totals.recording", str(tmp_path)]
    with running(command, stdout=subprocess.PIPE, cwd=root, text=True) as child:
        assert child.stdout.readline()
        time.sleep(1.2 + random.Random(seed).random())
        child.send_signal(signal.SIGKILL)
        written = [int(line) for line in child.stdout.read().splitlines()]
    store = store_in(tmp_path)
    assert not list(tmp_path.glob("totals-damaged-*"))
    kept = count(store)
    assert kept >= max(written, default=75)
    assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert store.connection.execute(
        "SELECT step, sum(requests) FROM rollups GROUP BY step"
    ).fetchall() == [(60_000, kept), (3_600_000, kept)]
    settled, evaluated = store.connection.execute(
        "SELECT settled, json_extract(reading, '$.reading.figures.evaluated') FROM upstreams"
    ).fetchone()
    assert settled == evaluated
    assert lifetime(store)["all"]["exchanges"] == settled
    assert lifetime(store)["waiting"]["exchanges"] == kept - settled
    store.look(look(evaluated=float(kept)))
    assert lifetime(store)["all"]["exchanges"] == kept
    store.connection.close()
