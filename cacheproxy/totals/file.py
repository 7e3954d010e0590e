"""The file of totals: created for its owner alone, locked when opened, set aside when damaged.

Its tables are those of ``schema.sql``. New columns do not change the version: they are added from
the list in ``record.columns``, and a program that does not know them leaves them alone.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from contextlib import closing, suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from cacheproxy.record.columns import CONVERSATIONS, EXCHANGES, SUM
from cacheproxy.totals.sums import ROLLUPS, first_class

_END = re.compile(r";[ ]*(?:--.*)?\n")
"""End of a statement in an SQL script."""
NAME = "totals.db"
_SMALL = 16 << 20
"""Bytes of the largest file that is checked as a whole when it is opened: 0.1 s."""
_first_class = lru_cache(1024)(first_class)
_LONG = 4 << 20
"""Bytes of SQLite's write-ahead log from which on it is checkpointed into the file."""
_MOST_ASIDE = 3
_OF_THE_FILE = frozenset(
    {
        *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY),
    }
)
Mark = tuple[int, int, int, int]
"""Device, inode, size in bytes, and time of the last write in ns: see ``mark``."""


class TotalsError(Exception):
    """The totals are unavailable; the message is one line with the reason and the remedy."""


SCHEMA = 6
"""Version of ``schema.sql``, the file's ``user_version``. Lower ones were never released."""


class _OutdatedError(TotalsError):
    """The file's version is one that is no longer read."""


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables of a new file, and add the columns that an existing one lacks.

    Raises TotalsError for a file of another version of the schema, and sqlite3.Error.
    """
    connection.create_function("first_class", 1, _first_class, deterministic=True)
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA:
        raise TotalsError(
            f"of a newer version (schema {version}, this one knows {SCHEMA}): upgrade cacheproxy, "
            "or set another --state-dir"
        )
    if 0 < version < SCHEMA:
        raise _OutdatedError(f"of an older version (schema {version})")
    if not version:
        script = (files("cacheproxy.totals") / "schema.sql").read_text(encoding="utf-8")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _END.split(script):  # ``executescript`` would commit in between
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    wanted = {  # columns that a file of an earlier release may lack
        "exchanges": {each.name: each.kind.type for each in EXCHANGES},
        "sessions": {each.name: each.kind.type for each in CONVERSATIONS},
        **{each.table: dict.fromkeys([*each.sums, *each.longest], SUM.type) for each in ROLLUPS},
    }
    for table, columns in wanted.items():
        known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for name, kind in columns.items():
            if kind and name not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def open_file(folder: Path) -> tuple[sqlite3.Connection, str | None]:
    """Open the file in ``folder``, creating both as needed; return also a line to log, or None.

    A file that is damaged, or of an older version, is set aside and a new one begun: the line
    reports it. The connection locks the file: in a second proxy this raises BusyError. Raises
    TotalsError. Blocks.
    """
    path = folder / NAME
    try:
        if path.is_dir():
            return _begin_anew(path)
        _make(folder, path)
    except OSError as error:
        why = f"{folder} is a file" if isinstance(error, FileExistsError) else error.strerror
        raise TotalsError(f"cannot write {path}: {why}") from None
    try:
        return _connect(path), None
    except _OutdatedError as error:
        return _begin_anew(path, "old", str(error))
    except TotalsError as error:
        raise TotalsError(f"{path} is {error}") from None
    except sqlite3.Error as error:
        if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BusyError(
                f"another cacheproxy is using {folder}: the totals of this one wait until that one "
                "ends; set another --state-dir to keep them apart"
            ) from None
        if not is_damage(error):
            raise TotalsError(f"cannot open the totals {path}: {error}") from None
    return _begin_anew(path)


class BusyError(TotalsError):
    """Another process has locked the file."""


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is no database, or a damaged one."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_of_the_file(error: BaseException | None) -> bool:
    """Return whether ``error`` is due to the file or its disk, not to the statement."""
    return isinstance(error, sqlite3.Error) and _code(error) in _OF_THE_FILE


def mark(path: Path) -> Mark | None:
    """Return a mark that changes if the file is written to or replaced; None if it is missing."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def settle(connection: sqlite3.Connection, path: Path) -> bool:
    """Checkpoint SQLite's log into the file, if it is long; return whether that was tried.

    SQLite by itself would do it in any commit, and a write by another program would not show.
    """
    try:
        if _log_of(path).stat().st_size < _LONG:
            return False
    except OSError:
        return False
    with suppress(sqlite3.Error):  # e.g. a full disk: the rest may be written later
        connection.execute("PRAGMA wal_checkpoint").fetchall()
    return True


def leave(connection: sqlite3.Connection, path: Path, known: Mark) -> str:
    """Close a file whose mark is no longer ``known``; return what happened to it, for the log.

    The file now at ``path`` stays as it is. One that was removed or replaced exists as long as it
    is open: a copy of it is set aside. SQLite would write its log (``-wal``) into the file as it
    closes it, or into the next one as it opens that: neither may happen to another program's file.
    """
    now = mark(path)
    if now is not None and now[:2] == known[:2]:
        held = path.with_name(path.name + "-held")
        with suppress(OSError):
            path.replace(held)  # SQLite does not write to a file that was moved
        _close(connection, path)
        with suppress(OSError):
            held.replace(path)
        return f"another program wrote to {path}"
    copy = _copy(connection, path)
    _close(connection, path)
    said = f"{path} was {'removed' if now is None else 'replaced'}"
    return said if copy is None else f"{said}; a copy of the old totals is {copy}"


def set_aside(path: Path, why: str = "damaged") -> Path:
    """Rename a file that cannot be used, and delete all but the last few; return its new name."""
    aside = _aside(path, why)
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    return aside


def _close(connection: sqlite3.Connection, path: Path) -> None:
    """Close the connection to a file that has left ``path``, and remove its log."""
    connection.close()
    with suppress(OSError):  # no log, or no folder any more
        _log_of(path).unlink()


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _aside(path: Path, why: str) -> Path:
    """Return a new name beside ``path``, and delete all but the last few files so named."""
    for old in sorted(path.parent.glob(f"{path.stem}-{why}-*{path.suffix}"))[: 1 - _MOST_ASIDE]:
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):  # not there, or a folder
                old.with_name(old.name + suffix).unlink()
    stamp = f"{path.stem}-{why}-{time.strftime('%Y%m%d-%H%M%S')}"
    aside, number = path.with_name(stamp + path.suffix), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{stamp}-{number}{path.suffix}")
    return aside


def _copy(connection: sqlite3.Connection, path: Path) -> Path | None:
    """Copy the open database to a file beside ``path``, and return that; None if it fails."""
    aside = _aside(path, "old")
    try:
        _make(aside.parent, aside)
        with closing(sqlite3.connect(aside)) as copy:
            connection.backup(copy)
    except (OSError, sqlite3.Error):
        return None
    return aside


def _begin_anew(
    path: Path, why: str = "damaged", said: str = "damaged"
) -> tuple[sqlite3.Connection, str]:
    """Set aside a file that cannot be used, and open a new one; return also a line to log.

    ``why``: the reason, a part of the file's new name; ``said``: the reason in the line.
    """
    try:
        aside = set_aside(path, why)
        _make(path.parent, path)
        connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise TotalsError(f"cannot begin new totals {path}: {error}") from None
    return connection, f"{path} was {said}: it is set aside as {aside}, new totals begin"


def _make(folder: Path, path: Path) -> None:
    """Create both for their owner alone, whatever the umask; SQLite gives -wal the same mode."""
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
        # One process at a time, and no shared memory beside the file.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA cache_size = -8192")
        connection.execute("PRAGMA journal_size_limit = 8388608")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # see settle
        connection.execute("BEGIN IMMEDIATE")  # locks the file now, and reads the schema
        connection.execute("COMMIT")
        if path.stat().st_size <= _SMALL:
            _check(connection)
        prepare(connection)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")  # fails e.g. on a full disk
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
