"""Numbers for texts that come again and again: words, upstreams, sessions.

Names are chosen by clients: they are bounded in length and number, and credentials in them hidden.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.totals.record import LONGEST_NAME

_LONGEST = {"words": 4 * LONGEST_NAME, "sessions": LONGEST_NAME}
"""Characters of what stands in a table, if others choose it."""
_MOST_WORDS = 4096
_MOST_REMEMBERED = 16_384
OTHER = "(other)"
"""Stands for all words beyond the most there may be."""


class Names:
    """Finds and gives numbers; remembers the latest in memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, ...], int] = {}

    def word(self, text: str | None) -> int | None:
        """Return the number of a word; None for None."""
        return None if text is None else self._number("words", {"text": text})

    def upstream(self, url: str, at: int) -> int:
        """Return the number of the upstream at ``url``, first seen ``at`` if it is new."""
        return self._number("upstreams", {"url": url}, first_seen=at)

    def session(self, client: str, name: str, upstream: int, at: int) -> int:
        """Return the number of a session, begun ``at`` if it is new."""
        key = {"client": client, "name": name}
        return self._number("sessions", key, upstream=upstream, first=at, last=at)

    def forget(self) -> None:
        """Forget what is remembered: some of it is not in the file, or no longer."""
        self._known.clear()

    def _number(self, table: str, key: dict[str, str], **new: int) -> int:
        known = (table, *key.values())
        number = self._known.get(known)
        if number is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            number = self._known[known] = self._find_or_add(table, key, new)
        return number

    def _find_or_add(self, table: str, key: dict[str, str], new: dict[str, int]) -> Any:
        longest = _LONGEST.get(table)
        if longest is not None:
            key = {column: safe(value, longest) for column, value in key.items()}
        found = self._find(table, key)
        if found is None and table == "words" and self._has_enough_words():
            key = {"text": OTHER}
            found = self._find(table, key)
        if found is None:
            columns = key | new
            (found,) = self._connection.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) "  # noqa: S608 - our own names
                f"VALUES (:{', :'.join(columns)}) RETURNING id",
                columns,
            ).fetchone()
        return found

    def _find(self, table: str, key: dict[str, str]) -> Any:
        condition = " AND ".join(f"{column} = :{column}" for column in key)
        sql = f"SELECT id FROM {table} WHERE {condition}"  # noqa: S608 - our own names
        row = self._connection.execute(sql, key).fetchone()
        return None if row is None else row[0]

    def _has_enough_words(self) -> bool:
        (count,) = self._connection.execute("SELECT count(*) FROM words").fetchone()
        return bool(count >= _MOST_WORDS)


def safe(text: str, most: int = LONGEST_NAME) -> str:
    """Return a client's text as it may be kept: without credentials, not long, valid UTF-8."""
    return hide_text(text)[:most].encode("utf-8", "replace").decode()
