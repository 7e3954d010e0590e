"""The file: made for its owner alone, opened as it should be, set aside when it is damaged."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from cacheproxy.totals.migrations import TotalsError, migrate

NAME = "totals.db"
_SMALL = 16 << 20
"""Bytes up to which the whole file is checked when it is opened: 0.1 s."""
_MOST_ASIDE = 3


def open_file(folder: Path) -> tuple[sqlite3.Connection, str | None]:
    """Open the totals in ``folder``, making both as needed; return also a line for the log.

    A damaged file is set aside and a new one begun: the line says so. The connection takes the
    file for itself: a second proxy gets BusyError. Raises TotalsError. Blocks.
    """
    path = folder / NAME
    try:
        _make(folder, path)
    except OSError as error:
        raise TotalsError(f"cannot keep totals in {folder}: {error.strerror}") from None
    try:
        return _connect(path), None
    except TotalsError:
        raise
    except sqlite3.Error as error:
        if is_busy(error):
            raise BusyError(
                f"another cacheproxy is using {folder}: set another --state-dir"
            ) from None
        if not is_damage(error):
            raise TotalsError(f"cannot open the totals {path}: {error}") from None
    aside = set_aside(path)
    try:
        _make(folder, path)
        connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise TotalsError(f"cannot begin new totals {path}: {error}") from None
    return connection, f"the totals were damaged: they are set aside as {aside}, new ones begin"


class BusyError(TotalsError):
    """Another process has the file."""


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process has the file."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is no database, or a broken one."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_of_the_file(error: BaseException | None) -> bool:
    """Whether the file or its disk is to blame, and not what was to be written."""
    return isinstance(error, sqlite3.OperationalError) or (
        isinstance(error, sqlite3.Error) and is_damage(error)
    )


def set_aside(path: Path) -> Path:
    """Rename a damaged file, and keep only the last few such; return its new name."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.stem}-damaged-{stamp}-{number}{path.suffix}")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    kept = sorted(path.parent.glob(f"{path.stem}-damaged-*{path.suffix}"))
    for old in kept[:-_MOST_ASIDE]:
        for suffix in ("", "-wal", "-shm"):
            old.with_name(old.name + suffix).unlink(missing_ok=True)
    return aside


def _make(folder: Path, path: Path) -> None:
    """Make both for their owner alone, whatever the umask; SQLite gives its -wal the same mode."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    try:
        # One process at a time, and no shared memory beside the file: two proxies that poll one
        # server and write its readings in turns would see restarts where there were none.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA cache_size = -8192")
        connection.execute("PRAGMA journal_size_limit = 8388608")
        connection.execute("BEGIN IMMEDIATE")  # takes the lock now, and reads the schema
        connection.execute("COMMIT")
        if path.stat().st_size <= _SMALL:
            _check(connection)
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    said = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if said != "ok":
        error = sqlite3.DatabaseError(said)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
