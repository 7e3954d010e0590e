"""The thread that has the file of totals to itself.

Not ``twisted.enterprise.adbapi``: that commits each interaction by itself, on whichever of its
threads and connections is free. Here one thread takes what has come, in its order, in one
transaction: a commit costs more than a hundred rows do, and one connection can hold the file
against a second proxy. Python's ``sqlite3`` beneath is the same.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.totals.file import (
    NAME,
    BusyError,
    is_damage,
    is_of_the_file,
    open_file,
    set_aside,
)
from cacheproxy.totals.migrations import TotalsError
from cacheproxy.totals.store import Store

_log = Logger()
_T = TypeVar("_T")
Job = Callable[[Store], Any]
_Waiting = tuple[Job, Deferred[Any] | None]

_GATHER = 0.5
"""Seconds for which more may come before it is written: at most so much is lost with the process,
and the time to write it. To wake the thread for each exchange would cost the reactor more than the
writing does."""
_MOST_WAITING = 20_000
_AGAIN = 2.0
"""Seconds after which a file that another process has is tried again: it may be draining."""
_CALM = 60.0
"""Seconds between two lines about the same trouble."""


class Database:
    """The totals in ``folder``. ``reactor``: an IReactorFromThreads, for logs and answers.

    The thread starts with the first job (twistd forks before that), and ends in ``close``.
    ``dropped`` counts what could not be kept.
    """

    def __init__(self, reactor: Any, folder: Path) -> None:
        self.dropped = 0
        self._reactor = reactor
        self._folder = folder
        self._jobs: deque[_Waiting] = deque()
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._told: dict[str, float] = {}

    def check(self) -> None:
        """Open the file once, so that what is wrong with it is known at the start. Blocks.

        Raises TotalsError; not for a file that another process has, which may be about to end.
        """
        try:
            connection, note = open_file(self._folder)
        except BusyError:
            return
        connection.close()
        if note is not None:
            _log.warn("{note}", note=note)

    def put(self, job: Job) -> None:
        """Have ``job`` done, soon, in order; from the reactor's thread, which never waits."""
        if self._closed or len(self._jobs) >= _MOST_WAITING:
            self.dropped += 1
            return
        self._add(job, None)

    def run(self, job: Callable[[Store], _T]) -> Deferred[_T]:
        """Have ``job`` done at once, after all before it; fire with what it returns.

        Errbacks: TotalsError (busy, closed), sqlite3.Error.
        """
        done: Deferred[_T] = Deferred()
        if self._closed or len(self._jobs) >= _MOST_WAITING:
            done.errback(TotalsError("the totals are closed, or far behind"))
            return done
        self._add(job, done)
        self._hurry.set()
        return done

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits, for at most ``timeout`` seconds, and close the file. Blocks."""
        self._closed = True
        self._hurry.set()
        self._work.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _add(self, job: Job, done: Deferred[Any] | None) -> None:
        self._jobs.append((job, done))
        if not self._work.is_set():
            self._work.set()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work_all, name="cacheproxy-totals", daemon=True
            )
            self._thread.start()

    def _work_all(self) -> None:
        while not self._closed or self._jobs:
            self._work.wait()
            self._work.clear()
            if not self._closed:
                self._hurry.wait(_GATHER)
            self._hurry.clear()
            if self._store is not None or self._open():
                self._work_once()
        if self._store is not None:
            self._store.connection.close()
            self._store = None

    def _open(self) -> bool:
        """Open the file; else tell, and have who asked know."""
        try:
            connection, note = open_file(self._folder)
            self._store = Store(connection)
        except (TotalsError, sqlite3.Error) as error:
            self._tell(str(error))
            self._refuse(error)
            if self._closed:
                self.dropped += len(self._jobs)
                self._jobs.clear()
            else:
                self._hurry.wait(_AGAIN)
                self._work.set()
            return False
        if note is not None:
            self._tell(note)
        return True

    def _refuse(self, error: Exception) -> None:
        """Answer those who wait with ``error``; what is only to be written goes on waiting."""
        for _ in range(len(self._jobs)):
            job, asker = self._jobs.popleft()
            if asker is None:
                self._jobs.append((job, None))
            else:
                self._answer(asker, Failure(error))

    def _work_once(self) -> None:
        """Do all that has come, in one transaction; where the file fails, the rest waits."""
        store = self._store
        assert store is not None
        execute = store.connection.execute
        answers: list[tuple[Deferred[Any], Any]] = []
        taken = 0
        try:
            execute("BEGIN")
            for _ in range(len(self._jobs)):
                job, asker = self._jobs.popleft()
                taken += 1
                result = self._do(store, job)
                if asker is not None:
                    answers.append((asker, result))
                if isinstance(result, Failure):
                    self.dropped += asker is None
                    if is_of_the_file(result.value):
                        result.raiseException()
            store.flush()
            execute("COMMIT")
        except sqlite3.Error as error:
            self.dropped += taken
            with suppress(sqlite3.Error):
                if store.connection.in_transaction:  # SQLite may have ended it: a full disk
                    execute("ROLLBACK")
                store.forget()
            self._trouble(store, error)
        for asker, result in answers:
            self._answer(asker, result)

    def _do(self, store: Store, job: Job) -> Any:
        """Return what ``job`` returns, or its Failure: one record must not cost the others."""
        execute = store.connection.execute
        try:
            execute("SAVEPOINT job")
            result = job(store)
        except Exception as error:
            result = Failure()
            if is_of_the_file(error):
                return result
            execute("ROLLBACK TO job")
            store.names.forget()
            self._tell(f"a record was left out of the totals ({type(error).__name__})")
        execute("RELEASE job")
        return result

    def _trouble(self, store: Store, error: sqlite3.Error) -> None:
        """Tell; set a damaged file aside: with the next job a new one begins."""
        self._tell(f"the totals in {self._folder / NAME} cannot be written: {error}")
        if not is_damage(error):
            return
        store.connection.close()
        self._store = None
        aside = set_aside(self._folder / NAME)
        self._tell(f"the totals were damaged: they are set aside as {aside}, new ones begin")

    def _answer(self, done: Deferred[Any], result: Any) -> None:
        self._reactor.callFromThread(_fire, done, result)

    def _tell(self, text: str) -> None:
        now = time.monotonic()
        if now - self._told.get(text, -_CALM) >= _CALM:
            self._told[text] = now
            self._reactor.callFromThread(_log.warn, "{text}", text=text)


def _fire(done: Deferred[Any], result: Any) -> None:
    if not done.called:  # who asked may have cancelled
        done.callback(result)
