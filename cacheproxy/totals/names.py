"""Numbers for texts that come again and again: words, upstreams, sessions, targets.

Names are chosen by clients: they are bounded in length and number, and credentials in them hidden.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable
from typing import TypeVar

from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.totals.record import LONGEST_NAME

_T = TypeVar("_T", bound=Hashable)

_MOST_WORDS = 4096
_MOST_TARGETS = 256
"""Models per upstream: each keeps its lifetime totals for ever."""
_MOST_REMEMBERED = 8192
OTHER = "(other)"
"""Stands for all names beyond the most there may be."""


class Names:
    """Finds and gives numbers; remembers the latest in memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._words: dict[str, int] = {}
        self._upstreams: dict[str, int] = {}
        self._sessions: dict[tuple[str, str], int] = {}
        self._targets: dict[tuple[int, str], int] = {}

    def word(self, text: str | None) -> int | None:
        """Return the number of a word; None for None."""
        if text is None:
            return None
        return self._remembered(self._words, text, self._find_word)

    def upstream(self, url: str, at: int) -> int:
        """Return the number of the upstream at ``url``, first seen ``at`` if it is new."""
        return self._remembered(self._upstreams, url, lambda url: self._find_upstream(url, at))

    def session(self, client: str, name: str, upstream: int, at: int) -> int:
        """Return the number of a session, begun ``at`` if it is new."""

        def find(key: tuple[str, str]) -> int:
            client, name = safe(key[0]), safe(key[1])
            found = self._one(
                "SELECT id FROM sessions WHERE client = ? AND name = ?", client, name
            ) or self._one(
                "INSERT INTO sessions (client, name, upstream, first, last) VALUES (?, ?, ?, ?, ?) "
                "RETURNING id",
                client,
                name,
                upstream,
                at,
                at,
            )
            assert found is not None
            return found

        return self._remembered(self._sessions, (client, name), find)

    def target(self, upstream: int, model: str | None, at: int) -> int:
        """Return the number under which totals are kept; first seen ``at`` if it is new."""
        key = (upstream, safe(model or ""))
        return self._remembered(self._targets, key, lambda key: self._find_target(key, at))

    def forget(self) -> None:
        """Forget what is remembered: some of it is not in the file, or no longer."""
        for known in (self._words, self._upstreams, self._sessions, self._targets):
            known.clear()

    def _remembered(self, known: dict[_T, int], key: _T, find: Callable[[_T], int]) -> int:
        number = known.get(key)
        if number is None:
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            number = known[key] = find(key)
        return number

    def _find_word(self, text: str) -> int:
        text = safe(text, 4 * LONGEST_NAME)
        found = self._one("SELECT id FROM words WHERE text = ?", text)
        if found is None:
            if (self._one("SELECT count(*) FROM words") or 0) >= _MOST_WORDS:
                text = OTHER
            found = self._one(
                "INSERT INTO words (text) VALUES (?) "
                "ON CONFLICT (text) DO UPDATE SET text = text RETURNING id",
                text,
            )
        assert found is not None
        return found

    def _find_upstream(self, url: str, at: int) -> int:
        found = self._one(
            "INSERT INTO upstreams (url, first_seen) VALUES (?, ?) "
            "ON CONFLICT (url) DO UPDATE SET url = url RETURNING id",
            url,
            at,
        )
        assert found is not None
        return found

    def _find_target(self, key: tuple[int, str], at: int) -> int:
        upstream, model = key
        found = self._one(
            "SELECT id FROM targets WHERE upstream = ? AND model = ?", upstream, model
        )
        if found is None:
            known = self._one("SELECT count(*) FROM targets WHERE upstream = ?", upstream) or 0
            found = self._one(
                "INSERT INTO targets (upstream, model, first_seen) VALUES (?, ?, ?) "
                "ON CONFLICT (upstream, model) DO UPDATE SET model = model RETURNING id",
                upstream,
                model if known < _MOST_TARGETS else OTHER,
                at,
            )
        assert found is not None
        return found

    def _one(self, sql: str, *parameters: object) -> int | None:
        row = self._connection.execute(sql, parameters).fetchone()
        return None if row is None else row[0]


def safe(text: str, most: int = LONGEST_NAME) -> str:
    """Return a client's text as it may be kept: without credentials, not long, valid UTF-8."""
    return hide_text(text)[:most].encode("utf-8", "replace").decode()
