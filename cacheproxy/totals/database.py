"""The thread that alone uses the file of totals.

Not ``twisted.enterprise.adbapi``: that commits each interaction by itself, on whichever of its
threads and connections is free. Here one thread does all waiting jobs, in order, in one
transaction: a commit costs more than a hundred rows do, and one connection can lock the file
against a second proxy. Python's ``sqlite3`` beneath is the same.

While the file is unavailable, a store in memory takes its place (``store.InMemory``): jobs that
write are done there and queued, and done again as soon as the file is back.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.totals.file import (
    NAME,
    BusyError,
    Mark,
    TotalsError,
    is_damage,
    is_of_the_file,
    leave,
    mark,
    open_file,
    set_aside,
    settle,
)
from cacheproxy.totals.store import MOST, InMemory, TotalsStore

_log = Logger()
_T = TypeVar("_T")
Job = Callable[[TotalsStore], Any]

_GATHER = 0.45
"""Seconds for which jobs are gathered before they are written. With the time for which exchanges
were gathered before, a crash loses at most the last half second and the jobs being written. To
wake the thread for each exchange would cost the reactor more than the writing does."""
_MOST_WAITING = 20_000
_PORTION = 1_000
"""Queued jobs written in one go, at most: queries wait meanwhile."""
_AGAIN = 2.0
"""Seconds before a file locked by another process is tried again: that one may be draining."""
_LATER = 20.0
"""Seconds before a file with any other trouble is tried again."""
_LAST = 3.0
"""Seconds, at the end, of waiting for a file that another process has locked."""
_CALM = 60.0
"""Seconds between two log lines about the same trouble."""
_UNKEPT = "no totals are kept at present"


_Waiting = tuple[Job, Deferred[Any] | None]
"""A job, and the Deferred that fires with its result; None: nobody waits for one."""


class Database:
    """The totals in ``folder``. ``reactor``: an IReactorFromThreads, for log lines and results.

    The thread starts with the first job (twistd forks before that), and ends in ``close``.
    ``dropped``: number of jobs that were lost. ``unkept``: why the file is unavailable, or "".
    """

    def __init__(self, reactor: Any, folder: Path) -> None:
        self.dropped = 0
        self.unkept = ""
        self._reactor = reactor
        self._folder = folder
        self._path = folder / NAME
        self._jobs: deque[_Waiting] = deque()
        self._waiting: deque[Job] = deque()
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._file: TotalsStore | None = None
        self._mark: Mark | None = None
        self._memory: TotalsStore | None = None
        self._busy = False
        self._not_before = 0.0
        self._logged: dict[str, float] = {}

    def check(self) -> None:
        """Open the file once, so that an error is logged at the start. Blocks.

        A lock by another process is no error: that one may be about to end.
        """
        try:
            connection, note = open_file(self._folder)
        except BusyError:
            return
        except TotalsError as error:
            self.unkept = str(error)
            note = f"{_UNKEPT}: {error}"
        else:
            connection.close()
        if note is not None:
            _log.warn("{note}", note=note)

    def put(self, *jobs: Job) -> None:
        """Queue ``jobs``, done soon and in order; called in the reactor's thread, never blocks."""
        room = 0 if self._closed else max(0, _MOST_WAITING - len(self._jobs))
        self.dropped += max(0, len(jobs) - room)
        if room and jobs:
            self._add(zip(jobs[:room], repeat(None)))

    def run(self, job: Callable[[TotalsStore], _T]) -> Deferred[_T]:
        """Queue ``job``, done at once after all before it; the Deferred fires with its result.

        Errbacks: TotalsError (closed, or far behind), sqlite3.Error.
        """
        done: Deferred[_T] = Deferred()
        if self._closed or len(self._jobs) >= _MOST_WAITING:
            done.errback(TotalsError("the totals are closed, or far behind"))
            return done
        self._add([(job, done)])
        self._hurry.set()
        return done

    def close(self, timeout: float = 10.0) -> None:
        """Do the waiting jobs, for at most ``timeout`` seconds, and close the file. Blocks."""
        self._closed = True
        self._hurry.set()
        self._work.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _add(self, waiting: Iterable[_Waiting]) -> None:
        self._jobs.extend(waiting)
        if not self._work.is_set():
            self._work.set()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work_all, name="cacheproxy-totals", daemon=True
            )
            self._thread.start()

    def _work_all(self) -> None:
        while not self._closed or self._jobs:
            self._work.wait(None if self._file is not None else _AGAIN)
            self._work.clear()
            if not self._closed:
                self._hurry.wait(_GATHER)
            self._hurry.clear()
            self._work_once(self._store())
        until = time.monotonic() + _LAST
        while self._waiting:
            store = self._store()
            if store is self._file:
                self._work_once(store)
                if self._file is None and self._not_before:  # the file cannot be written
                    break
            elif not self._busy or time.monotonic() >= until:
                break
            else:
                time.sleep(0.1)
        if self._waiting:
            self.dropped += len(self._waiting)
            self._tell(f"{len(self._waiting):,} requests are not in the totals: {self.unkept}")
        if self._file is not None:
            self._file.connection.close()
            self._file = None

    def _store(self) -> TotalsStore:
        """Return the store to use: the file's, or the one in memory while that is unavailable."""
        if self._file is not None and self._mark and mark(self._path) != self._mark:
            said = leave(self._file.connection, self._path, self._mark)
            self._file = None
            self._open(said)
        elif self._file is not None:
            if settle(self._file.connection, self._path):
                self._mark = mark(self._path)
        elif self._closed or time.monotonic() >= self._not_before:
            self._open()
        if self._file is not None:
            return self._file
        if self._memory is None:
            self._memory = InMemory()
            for job in list(self._waiting)[-MOST:]:
                self._do(self._memory, job)
            self._memory.flush()
        return self._memory

    def _open(self, said: str = "") -> None:
        """Open the file; ``said``: the fate of the previous one, for the log."""
        note, self._busy = None, False
        try:
            connection, note = open_file(self._folder)
            self._file = TotalsStore(connection)
        except (TotalsError, sqlite3.Error) as error:
            self._busy = isinstance(error, BusyError)
            self._miss(str(error))
        else:
            self._mark = mark(self._path)
            self._memory = None
            if said and note is None:
                note = "new totals begin" if self._file.first == 1 else "the totals there are used"
        if said or note:
            self._tell("; ".join(filter(None, (said, note))))

    def _miss(self, why: str) -> None:
        """Do without the file for a while, because of ``why``; a new reason is logged."""
        if why != self.unkept:
            self.unkept = why
            self._tell(f"{_UNKEPT}: {why}")
        self._not_before = time.monotonic() + (_AGAIN if self._busy else _LATER)

    def _work_once(self, store: TotalsStore) -> None:
        """Do all waiting jobs in one transaction; if the file fails, they are queued again."""
        execute, is_file = store.connection.execute, store is self._file
        waiting = self._taken(is_file=is_file)
        answers: list[tuple[Deferred[Any], Any]] = []
        done: list[Job] = []
        taken = 0
        try:
            execute("BEGIN")
            for job, asker in waiting:
                if asker is not None and done:
                    store.flush()  # sums include all earlier jobs
                result = self._do(store, job)
                if isinstance(result, Failure) and is_of_the_file(result.value):
                    result.raiseException()
                taken += 1
                if asker is not None:
                    answers.append((asker, result))
                elif isinstance(result, Failure):
                    self.dropped += 1
                else:
                    done.append(job)
            store.flush()
            execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                if store.connection.in_transaction:  # SQLite may have ended it: a full disk
                    execute("ROLLBACK")
                store.forget()
            if is_of_the_file(error):
                left = waiting[taken:]
                done += [job for job, asker in left if asker is None]
                self._waiting.extendleft(reversed(done))
                self._jobs.extendleft(each for each in reversed(left) if each[1] is not None)
            else:
                self.dropped += len(done)
            self._trouble(store, error)
        else:
            if not is_file:
                self._hold(done)
            elif self.unkept:
                self.unkept = ""
                self._tell(f"totals are kept again in {self._path}")
        for asker, result in answers:
            self._reactor.callFromThread(_fire, asker, result)

    def _taken(self, *, is_file: bool) -> list[_Waiting]:
        """Take the next jobs off the queues: for a file the queued ones first, in portions."""
        found: list[_Waiting] = []
        if is_file and self._waiting:
            portion = min(_PORTION, len(self._waiting))
            found += ((self._waiting.popleft(), None) for _ in range(portion))
            if self._waiting:
                self._hurry.set()
                self._work.set()
                return found
        return found + [self._jobs.popleft() for _ in range(len(self._jobs))]

    def _do(self, store: TotalsStore, job: Job) -> Any:
        """Return the result of ``job``, or its Failure: a bad record must not cost the others."""
        execute = store.connection.execute
        try:
            execute("SAVEPOINT job")
            result = job(store)
        except Exception as error:
            result = Failure()
            if is_of_the_file(error):
                return result
            execute("ROLLBACK TO job")
            store.forget_numbers()
            self._tell(f"a record was left out of the totals ({type(error).__name__})")
        execute("RELEASE job")
        return result

    def _hold(self, jobs: list[Job]) -> None:
        """Queue ``jobs`` until the file is back, as many as there is room for."""
        room = _MOST_WAITING - len(self._waiting)
        self._waiting.extend(jobs[:room])
        if len(jobs) > room:
            self.dropped += len(jobs) - room
            self._tell(f"{_MOST_WAITING:,} requests wait for {self._path}: more are not counted")

    def _trouble(self, store: TotalsStore, error: sqlite3.Error) -> None:
        """Log ``error`` and close the file if it is at fault; a damaged one is set aside."""
        if store is self._memory or not is_of_the_file(error):
            self._tell(f"some requests were left out of the totals: {error}")
            return
        with suppress(sqlite3.Error):
            store.connection.close()
        self._file, self._not_before = None, 0.0
        try:
            if is_damage(error):
                aside = set_aside(self._path)
                self._tell(
                    f"{self._path} was damaged: it is set aside as {aside}, new totals begin"
                )
                return
        except OSError as failed:
            error = sqlite3.OperationalError(failed.strerror)
        self._miss(f"cannot write {self._path}: {error}")

    def _tell(self, text: str) -> None:
        now = time.monotonic()
        if now - self._logged.get(text, -_CALM) >= _CALM:
            self._logged[text] = now
            self._reactor.callFromThread(_log.warn, "{text}", text=text)


def _fire(done: Deferred[Any], result: Any) -> None:
    if not done.called:  # not cancelled meanwhile
        done.callback(result)
