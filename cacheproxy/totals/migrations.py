"""The schema's versions: ``schema/001.sql`` and on, each taking the file one version further.

A column that has come since needs no version: it is added as ``record.kept`` says, and a program
that does not know it leaves it alone.
"""

from __future__ import annotations

import math
import re
import sqlite3
from importlib.resources import files

from cacheproxy.record.kept import CONVERSATIONS, EXCHANGES, SUM
from cacheproxy.totals.sums import ROLLUPS

_END = re.compile(r";[ ]*(?:--.*)?\n")
"""Where a statement of a script ends."""


class TotalsError(Exception):
    """The totals cannot be kept; the message is one line that says why, and what mends it."""


def scripts() -> list[str]:
    """Return the SQL of each version, the first one first."""
    folder = files("cacheproxy.totals") / "schema"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


LATEST = len(scripts())


def migrate(connection: sqlite3.Connection, upto: int = LATEST) -> int:
    """Bring the file to version ``upto``; return the version it had. All of it or nothing.

    Raises TotalsError for a file of a newer cacheproxy, and sqlite3.Error.
    """
    connection.create_function("first_class", 1, first_class, deterministic=True)
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > LATEST:
        raise TotalsError(
            f"of a newer version (schema {version}, this one knows {LATEST}): upgrade cacheproxy, "
            "or set another --state-dir"
        )
    for number, script in enumerate(scripts()[version:upto], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _END.split(script):  # ``executescript`` would commit in between
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    if upto == LATEST:
        _complete(connection)
    return version


def _complete(connection: sqlite3.Connection) -> None:
    """Add the columns that the file does not have as yet."""
    wanted = {
        "exchanges": {each.name: each.kind.type for each in EXCHANGES},
        "sessions": {each.name: each.kind.type for each in CONVERSATIONS},
        **{each.table: dict.fromkeys([*each.sums, *each.longest], SUM.type) for each in ROLLUPS},
    }
    for table, columns in wanted.items():
        known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for name, kind in columns.items():
            if kind and name not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def first_class(milliseconds: int) -> int:
    """Return the class of a wait: quarter powers of two, so within 9 % of the wait itself."""
    return round(4 * math.log2(max(1, milliseconds)))


def class_middle(number: int) -> float:
    """Return the milliseconds in the middle of a class."""
    return float(2 ** (number / 4))
