"""The store of totals: an open file, which one thread writes and reads, or memory in its place.

Names are chosen by clients: their length and number are bounded, and credentials in them hidden.
Rows are deleted with age, lifetime sums stay, and the file does not grow for ever.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.record.columns import (
    ADD_TO_CONVERSATION,
    INSERT,
    LONGEST_NAME,
    LONGEST_PLACE,
    WORDS,
    Json,
    Shown,
    select,
)
from cacheproxy.totals.file import prepare
from cacheproxy.totals.sums import ADD_SUMS, EVER, ROLLUPS, STEPS

_SERVES = "UPDATE upstreams SET served = :served WHERE id = :upstream AND served IS NOT :served"
_ADD_ROUTED = """
INSERT INTO routed VALUES (
    :upstream, :route, 1, ifnull(:prompt, 0), ifnull(:reused, 0), ifnull(:evaluated, 0),
    ifnull(:output, 0), :price
) ON CONFLICT DO UPDATE SET requests = requests + 1, prompt = prompt + excluded.prompt,
    reused = reused + excluded.reused, evaluated = evaluated + excluded.evaluated,
    output = output + excluded.output, price = price + excluded.price
"""
MOST = 500
"""Exchanges in memory: so few that a query takes 1 ms, and may run in the reactor's thread."""
_EACH = 100
"""Exchanges recorded before the oldest beyond ``MOST`` are dropped again."""
_LONGEST = {"words": 4 * LONGEST_NAME, "sessions": LONGEST_NAME}
"""Characters, at most, of the texts in a table that clients choose."""
_MOST_WORDS = 4096
_MOST_REMEMBERED = 8192
_names_in, _session_in = itemgetter(*WORDS, "upstream"), itemgetter("client", "session", "root")
OTHER = "(other)"
"""Word that stands for all those beyond ``_MOST_WORDS``."""
_DAY = 24 * 3_600_000


def safe(text: str, most: int = LONGEST_NAME) -> str:
    """Return a client's text fit to be stored: without credentials, short, in valid UTF-8."""
    return hide_text(text)[:most].encode("utf-8", "replace").decode()


class TotalsStore:
    """The store of records. ``first``: row from which on exchanges have this run's numbers.

    Call ``flush`` before a commit, ``forget`` after a rollback. Recurring texts are stored once;
    their row numbers are cached.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        (self.first,) = connection.execute(
            "SELECT ifnull(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'exchanges'"
        ).fetchone()
        self._numbers: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._summed = self._last()

    def record(self, record: Json) -> None:
        """Write the record of an exchange, from ``record_of``."""
        execute, known, names = self.connection.execute, self._numbers.get, _names_in(record)
        row = record | (known(names) or self._keep(names, self._words_of(record)))
        execute(_SERVES, row)
        if record["place"] is not None:
            row["place"] = safe(record["place"], LONGEST_PLACE)
        if record["session"] is not None:
            names = _session_in(record)
            row |= known(names) or self._keep(names, self._session_of(row))
            execute(ADD_TO_CONVERSATION, row)
        if record["route"] is not None:
            execute(_ADD_ROUTED, row)
        execute(INSERT, row)

    def _keep(self, names: tuple[Any, ...], numbers: dict[str, Any]) -> dict[str, Any]:
        if len(self._numbers) >= _MOST_REMEMBERED:
            self._numbers.clear()
        return self._numbers.setdefault(names, numbers)

    def _words_of(self, record: Json) -> dict[str, Any]:
        """Return the row numbers of the record's words, and of its upstream."""
        texts = {name: record[name] for name in WORDS if record[name] is not None}
        found = {name: self._number("words", {"text": text}) for name, text in texts.items()}
        upstream = {"url": record["upstream"]}
        return found | {"upstream": self._number("upstreams", upstream, first_seen=record["at"])}

    def _session_of(self, row: Json) -> dict[str, Any]:
        """Return the row numbers of the record's session, and of its root, None if that is it."""
        new = {"upstream": row["upstream"], "first": row["at"], "last": row["at"]}
        root, found = row["root"], dict[str, Any](root=None)
        if root is not None and root.id != row["session"]:
            of_root = {"client": root.client, "name": root.id}
            found["root"] = self._number("sessions", of_root, **new)
        key = {"client": row["client"], "name": row["session"]}
        return found | {"session": self._number("sessions", key, **new)}

    def rows(self, sql: str, parameters: Mapping[str, Any] | Sequence[Any] = ()) -> list[Json]:
        """Return the rows that ``sql`` finds, each a dict by column name."""
        found = self.connection.execute(sql, parameters)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def shown(self, on: Shown, rows: str, scope: Json, order: str = "e.id") -> list[Json]:
        """Return the columns that the page ``on`` shows, of the rows found by the SQL ``rows``."""
        found = self.rows(select(on, rows, order), scope | {"first_row": self.first})
        for row in found:
            if "session" in row:  # the session's name in the log
                session = row["session"]
                row["label"] = Session(row["client"], session).label if session else None
        return found

    def flush(self) -> None:
        """Add the records since the last call to the sums."""
        last = self._last()
        if last > self._summed:
            for statement in ADD_SUMS:
                self.connection.execute(statement, (self._summed,))
            self._summed = last

    def forget(self) -> None:
        """Drop the state of a transaction that was rolled back."""
        self.forget_numbers()
        self._summed = self._last()

    def forget_numbers(self) -> None:
        """Empty the cache of texts' row numbers, as some rows are not, or no longer, there."""
        self._numbers.clear()

    def _last(self) -> int:
        found = self.connection.execute("SELECT ifnull(max(id), 0) FROM exchanges")
        return int(found.fetchone()[0])

    def _number(self, table: str, key: dict[str, str], **new: int) -> Any:
        """Return the row number of ``key`` in ``table``; ``new``: other columns of a new row."""
        if (longest := _LONGEST.get(table)) is not None:
            key = {column: safe(value, longest) for column, value in key.items()}
        return self._find(table, key) or self._add(table, key, new)

    def _find(self, table: str, key: dict[str, str]) -> Any:
        condition = " AND ".join(f"{column} = :{column}" for column in key)
        sql = f"SELECT id FROM {table} WHERE {condition}"  # noqa: S608 - our own names
        row = self.connection.execute(sql, key).fetchone()
        return None if row is None else row[0]

    def _add(self, table: str, key: dict[str, str], new: dict[str, int]) -> Any:
        execute = self.connection.execute
        if table == "words" and execute("SELECT count(*) FROM words").fetchone()[0] >= _MOST_WORDS:
            key = {"text": OTHER}
            if (found := self._find(table, key)) is not None:
                return found
        columns = key | new
        (number,) = execute(
            f"INSERT INTO {table} ({', '.join(columns)}) "  # noqa: S608 - our own names
            f"VALUES (:{', :'.join(columns)}) RETURNING id",
            columns,
        ).fetchone()
        return number


class InMemory(TotalsStore):
    """A store in memory, of the last ``most`` exchanges and up to a hundred more."""

    def __init__(self, most: int = MOST) -> None:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        prepare(connection)
        super().__init__(connection)
        self._most = most
        self._count = 0

    def record(self, record: Json) -> None:
        """Write the record of an exchange; every hundred times drop the oldest ones."""
        super().record(record)
        self._count += 1
        if self._count % _EACH:
            return
        self.flush()
        run = self.connection.execute  # old sums go with their rows
        run("DELETE FROM exchanges WHERE id <= (SELECT max(id) FROM exchanges) - ?", (self._most,))
        (oldest,) = run("SELECT min(at) FROM exchanges").fetchone()
        for each in ROLLUPS:
            run(f"DELETE FROM {each.table} WHERE at + step <= ?", (oldest,))  # noqa: S608
        run("DELETE FROM sessions WHERE id NOT IN (SELECT ifnull(session, 0) FROM exchanges)")
        self.forget_numbers()


@dataclass(frozen=True, slots=True)
class Keep:
    """Ages at which detail is deleted."""

    exchanges: int = 31 * _DAY  #: age of rows, and of sessions since their last row, in ms
    minutes: int = 3 * _DAY  #: age of sums by the minute, in ms
    hours: int = 5 * 366 * _DAY  #: age of sums by the hour, in ms
    size: int = 512 << 20  #: bytes of the file; beyond them the oldest rows go, at any age


DEFAULT = Keep()
_MOST_AT_ONCE = 2_000
"""Rows deleted in one go, at most: other jobs wait meanwhile."""


def tidy(store: TotalsStore, now: int, keep: Keep = DEFAULT) -> bool:
    """Delete some rows and sums that are old at ``now`` (ms); return whether more are left.

    Lifetime totals are not touched.
    """
    execute = store.connection.execute
    store.flush()  # the latest records may be old, too
    for each in ROLLUPS:
        for step, age in zip(STEPS, (keep.minutes, keep.hours), strict=True):
            execute(
                f"DELETE FROM {each.table} WHERE step = ? AND at < ?",  # noqa: S608 - our own names
                (step, now - age),
            )
    more = _delete_rows(store, now - keep.exchanges)
    pages, free, size = (
        execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    if (pages - free) * size > keep.size:
        more = _delete_rows(store, EVER) or more
    if execute("DELETE FROM sessions WHERE last < ?", (now - keep.exchanges,)).rowcount:
        store.forget_numbers()
    execute("PRAGMA incremental_vacuum(500)").fetchall()
    return more


def _delete_rows(store: TotalsStore, until: int) -> bool:
    """Delete some of the oldest rows from before ``until``; return whether there may be more."""
    deleted = store.connection.execute(
        "DELETE FROM exchanges WHERE id IN ("
        "SELECT id FROM exchanges WHERE at < ? ORDER BY at LIMIT ?)",
        (until, _MOST_AT_ONCE),
    ).rowcount
    return deleted >= _MOST_AT_ONCE
