"""The thread that keeps the totals: in order, together, and whatever happens to the file."""

import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from cacheproxy.totals import database as module
from cacheproxy.totals import file
from cacheproxy.totals.database import Database
from cacheproxy.totals.file import NAME
from cacheproxy.totals.sums import EVER
from cacheproxy.totals.windows import lifetime
from tests.disk import files_of_at_most
from tests.proxy.harness import eventually, running
from tests.turning import TurningReactor

from .builders import keep, record, store_in


def put(database, *records):
    for each in records:
        database.put(lambda store, each=each: store.record(each))


def one(sql):
    """A question for a value."""
    return lambda store: store.connection.execute(sql).fetchone()[0]


count = one("SELECT count(*) FROM exchanges")


def rows(folder):
    store = store_in(folder)
    found = count(store)
    store.connection.close()
    return found


def _replace(make):
    def change(path, backup):
        path.unlink()
        make(path, backup)

    return change


def _damage(path, _):
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xa5" * 8192)


CHANGES = {
    "removed": lambda path, _: path.unlink(),
    "its folder removed": lambda path, _: shutil.rmtree(path.parent),
    "moved away": lambda path, _: path.rename(path.with_name("elsewhere")),
    "a text over it": lambda path, _: path.write_text("no totals\n" * 1000),
    "a text in its place": _replace(lambda path, _: path.write_text("no totals\n" * 1000)),
    "a folder in its place": _replace(lambda path, _: path.mkdir()),
    "an older one over it": lambda path, backup: shutil.copyfile(backup, path),
    "an older one in its place": lambda path, backup: backup.replace(path),
    "cut short": lambda path, _: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path, _: os.truncate(path, 0),
    "damaged in the middle": _damage,
}
REPLACED = {each for each in CHANGES if "removed" in each or "in its" in each or "away" in each}


@pytest.fixture
def reactor():
    return TurningReactor()


@pytest.fixture
def database(reactor, tmp_path):
    database = Database(reactor, tmp_path / "state")
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
    """Though nothing of it has been committed yet; in the sums, too."""
    put(database, *(record(number=number) for number in range(100)))
    assert ask(database, reactor, count) == 100
    put(database, record())
    assert ask(database, reactor, lifetime)["requests"] == 101


def test_what_waits_is_written_when_it_closes(database, tmp_path):
    put(database, *(record(number=number) for number in range(100)))
    database.close()
    assert rows(tmp_path / "state") == 100
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
    assert ask(database, reactor, one("SELECT sum(requests) FROM rollups WHERE step = 60000")) == 2
    assert database.dropped == 2
    assert any("ZeroDivisionError" in line for line in log)
    assert not any("canary" in line for line in log)


def test_a_full_disk_costs_nothing(database, reactor, log, monkeypatch):
    """What failed is undone as a whole, and done again, in order, when there is room."""
    monkeypatch.setattr(module, "_LATER", 0.05)

    def fill(store):
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages}")

    ask(database, reactor, fill)
    put(database, *(record(session=f"s{number}") for number in range(500)))
    reactor.turn_until(lambda: any("cannot write" in line for line in log))
    put(database, record())
    reactor.turn_until(lambda: any("totals are kept again" in line for line in log))
    assert ask(database, reactor, count) == 501
    for step in (60_000, 3_600_000, EVER):
        sums = one(f"SELECT sum(requests) FROM rollups WHERE step = {step}")
        assert ask(database, reactor, sums) == 501
    assert database.dropped == 0
    assert len(log) == 2


def test_a_disk_that_is_full_when_the_log_is_written_into_the_file(
    database, reactor, log, monkeypatch, tmp_path
):
    """Some of it is written then: that was nobody else, and the log is not thrown away."""
    path = tmp_path / "state" / NAME
    monkeypatch.setattr(file, "_LONG", 1)
    put(database, record())
    assert ask(database, reactor, count) == 1
    assert ask(database, reactor, count) == 1  # now it is in the file
    before = path.stat()
    monkeypatch.setattr(file, "_LONG", 1 << 30)
    put(database, *(record(session=f"s{number}") for number in range(1500)))
    assert ask(database, reactor, count) == 1501
    monkeypatch.setattr(file, "_LONG", 1)
    with files_of_at_most(before.st_size + 50_000):
        assert ask(database, reactor, count) == 1501
    assert path.stat().st_mtime_ns > before.st_mtime_ns
    assert ask(database, reactor, count) == 1501
    database.close()
    assert rows(path.parent) == 1501
    assert log == []


def test_the_end_does_not_wait_for_a_disk_that_is_full(database, reactor, log, monkeypatch):
    """There is room enough to open the file, and not for all that is held."""
    monkeypatch.setattr(module, "_LATER", 1000)
    ask(database, reactor, one("PRAGMA wal_checkpoint"))
    opened = []
    monkeypatch.setattr(module, "open_file", lambda at: opened.append(at) or file.open_file(at))
    with files_of_at_most(200_000):
        put(database, *(record(session=f"s{number}") for number in range(2000)))
        reactor.turn_until(lambda: any("cannot write" in line for line in log))
        database.close()
    assert len(opened) < 5
    reactor.turn_until(lambda: "2,000 requests are not in the totals" in log[-1])
    assert database.dropped == 2000


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
        path = tmp_path / "state" / NAME
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (size - 4096))
        store.connection.execute("PRAGMA shrink_memory").fetchall()
        store.connection.execute("BEGIN")
        store.connection.execute("SAVEPOINT job")
        store.forget_numbers()

    database.run(damage)
    put(database, record())

    def set_aside():
        put(database, record())
        return list((tmp_path / "state").glob("totals-damaged-*.db"))

    eventually(set_aside)
    put(database, record(number=4242))
    newest = "SELECT number FROM exchanges ORDER BY id DESC LIMIT 1"
    assert ask(database, reactor, one(newest)) == 4242
    reactor.turn()
    assert sum("set aside" in line for line in log) == 1


def test_a_file_that_another_process_has_is_waited_for(reactor, tmp_path, log, monkeypatch):
    """It may be draining: what comes in the meantime is kept, and memory answers."""
    monkeypatch.setattr(module, "_AGAIN", 0.05)
    other = store_in(tmp_path)
    keep(other, record())
    database = Database(reactor, tmp_path)
    database.check()
    put(database, record())
    assert ask(database, reactor, count) == 1
    assert "another cacheproxy is using" in database.unkept
    put(database, record())
    other.connection.close()
    reactor.turn_until(lambda: not database.unkept)
    assert ask(database, reactor, count) == 3
    database.close()
    reactor.turn()
    assert [line.partition(":")[0] for line in log] == [
        "no totals are kept at present",
        f"totals are kept again in {tmp_path / NAME}",
    ]


def test_what_waits_for_another_process_is_bounded(reactor, tmp_path, log, monkeypatch):
    monkeypatch.setattr(module, "_MOST_WAITING", 10)
    other = store_in(tmp_path)
    database = Database(reactor, tmp_path)
    for _ in range(3):
        put(database, *(record() for _ in range(5)))
        ask(database, reactor, count)
    assert database.dropped == 5
    other.connection.close()
    database.close()
    assert rows(tmp_path) == 10


@pytest.mark.parametrize("how", CHANGES)
def test_a_file_that_others_change_is_noticed(database, reactor, tmp_path, log, how):
    """With one line that names it; what was and what comes is kept, as far as there is a file."""
    backup = tmp_path / "backup"
    put(database, record(number=1))
    ask(database, reactor, count)
    database.close()
    shutil.copy(tmp_path / "state" / NAME, backup)
    database = Database(reactor, tmp_path / "state")
    put(database, *(record(number=number) for number in range(2, 500)))
    before = ask(database, reactor, count)
    assert before == 499
    CHANGES[how](tmp_path / "state" / NAME, backup)
    put(database, record(number=1000))
    now = ask(database, reactor, count)
    put(database, record(number=1001))
    database.close()
    reactor.turn()
    assert now == {"an older one over it": 2, "an older one in its place": 2}.get(how, 1)
    assert rows(tmp_path / "state") == now + 1
    (line,) = log
    assert str(tmp_path / "state" / NAME) in line
    aside = [each for each in (tmp_path / "state").glob("totals-*.db") if each.is_file()]
    if how in REPLACED:
        (old,) = (each for each in aside if "-old-" in each.name)
        assert stat.S_IMODE(old.stat().st_mode) == 0o600
        with closing(sqlite3.connect(old)) as copy:
            assert copy.execute("SELECT count(*) FROM exchanges").fetchone() == (before,)
        assert str(old) in line


def test_a_file_in_place_of_its_folder_is_noticed(database, reactor, tmp_path, log):
    """Memory answers."""
    put(database, record())
    assert ask(database, reactor, count) == 1
    folder = tmp_path / "state"
    shutil.rmtree(folder)
    folder.write_text("")
    put(database, record())
    assert ask(database, reactor, count) == 1
    assert database.unkept == f"cannot write {folder / NAME}: {folder} is a file"


def test_what_it_writes_itself_is_nobody_elses(database, reactor, tmp_path, log, monkeypatch):
    """The file grows beside its log, and nothing is opened again."""
    monkeypatch.setattr(file, "_LONG", 1 << 16)
    for _ in range(4):
        put(database, *(record(session=f"s{number}") for number in range(300)))
        ask(database, reactor, count)
    assert (tmp_path / "state" / NAME).stat().st_size > 1 << 16
    assert ask(database, reactor, count) == 1200
    assert not log


def test_a_log_that_is_removed_costs_nothing(database, reactor, tmp_path, log):
    """SQLite goes on with the one it has open, and writes it into the file in the end."""
    put(database, record())
    ask(database, reactor, count)
    (tmp_path / "state" / (NAME + "-wal")).unlink()
    put(database, record())
    database.close()
    assert rows(tmp_path / "state") == 2


def test_a_damaged_file_at_the_start_is_one_line(reactor, tmp_path, log):
    (tmp_path / NAME).write_bytes(b"x" * 5000)
    Database(reactor, tmp_path).check()
    (line,) = log
    assert "set aside" in line


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 2))])
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
    assert one("PRAGMA integrity_check")(store) == "ok"
    found = store.connection.execute("SELECT step, sum(requests) FROM rollups GROUP BY step")
    assert found.fetchall() == [(60_000, kept), (3_600_000, kept), (EVER, kept)]
    assert lifetime(store)["requests"] == kept
    store.connection.close()
