"""An open file of totals, as its one thread writes and reads it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from cacheproxy.core.server.status import Look
from cacheproxy.totals.lifetime import Lifetime
from cacheproxy.totals.names import Names, safe
from cacheproxy.totals.record import LONGEST_PLACE, NO_COLUMNS, Record
from cacheproxy.totals.sums import ADD_SUMS

Json = dict[str, Any]

_WORDS = ("model", "dialect", "outcome", "verdict", "reason", "shape", "rules", "rendered")
_COLUMNS = ("under_way", *(name for name in Record._fields if name not in NO_COLUMNS))
_INSERT = (
    f"INSERT INTO exchanges ({', '.join(_COLUMNS)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
)
_TOUCH_SESSION = """
UPDATE sessions SET last = :at, requests = requests + 1, upstream = :upstream,
    model = ifnull((SELECT text FROM words WHERE id = :model), model),
    turns = turns + (:turn > 0 AND NOT :side),
    breaks = breaks + (:reason IS NOT NULL AND NOT :side),
    prompt = prompt + CASE WHEN :reused IS NULL THEN 0 ELSE ifnull(:prompt, 0) END,
    reused = reused + CASE WHEN :prompt IS NULL THEN 0 ELSE ifnull(:reused, 0) END,
    output = output + ifnull(:output, 0),
    context = ifnull(CASE WHEN :turn > 0 AND NOT :side THEN :prompt + ifnull(:output, 0) END,
        context),
    root = ifnull(:root, root), side = side + :side,
    evaluated = evaluated + CASE WHEN :prompt IS NULL OR :reused IS NULL THEN 0
        ELSE ifnull(:evaluated, 0) END,
    lost = lost + CASE WHEN :reason IS NULL OR :side THEN 0 ELSE ifnull(:lost, 0) END,
    lost_ms = lost_ms + CASE WHEN :reason IS NULL OR :side THEN 0 ELSE ifnull(:lost_ms, 0) END,
    spared = spared + ifnull(:spared, 0), spared_ms = spared_ms + ifnull(:spared_ms, 0),
    unpriced = unpriced + CASE WHEN :spared_ms IS NULL THEN ifnull(:spared, 0) ELSE 0 END
WHERE id = :session
"""
_ADD_ROUTED = """
INSERT INTO routed VALUES (
    :upstream, :route, 1, ifnull(:prompt, 0), ifnull(:reused, 0), ifnull(:evaluated, 0),
    ifnull(:output, 0), :price
) ON CONFLICT DO UPDATE SET requests = requests + 1, prompt = prompt + excluded.prompt,
    reused = reused + excluded.reused, evaluated = evaluated + excluded.evaluated,
    output = output + excluded.output, price = price + excluded.price
"""


class Store:
    """Writes records and looks. ``first``: the first row of this run, whose numbers still hold.

    ``flush`` comes before a commit, ``forget`` after a rollback.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        (self.first,) = connection.execute(
            "SELECT ifnull(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'exchanges'"
        ).fetchone()
        self.names = Names(connection)
        self._lifetime = Lifetime(connection, self.names)
        self._summed = self._last()
        self._looked: dict[str, float] = {}
        self._kept: dict[str, float] = {}
        """What had been looked at when ``flush`` was called last."""

    def record(self, record: Record) -> None:
        """Write an exchange."""
        names, at, execute = self.names, record.at, self.connection.execute
        looked = self._looked.get(record.upstream)
        row: Json = record._asdict()
        row |= {name: names.word(row[name]) for name in _WORDS}
        row["under_way"] = looked is not None and record.began <= looked
        row["upstream"] = names.upstream(record.upstream, at)
        if record.place is not None:
            row["place"] = safe(record.place, LONGEST_PLACE)
        if record.session is not None:
            root = record.root
            if root is not None and root.id != record.session:
                row["root"] = names.session(root.client, root.id, row["upstream"], at)
            else:
                row["root"] = None
            row["session"] = names.session(record.client, record.session, row["upstream"], at)
            execute(_TOUCH_SESSION, row)
        if record.route is not None:
            execute(_ADD_ROUTED, row)
        execute(_INSERT, row)

    def look(self, look: Look) -> None:
        """Count a look at an upstream, and the exchanges since the last."""
        self._lifetime.count(look)
        if look.reading is not None:
            self._looked[look.url] = look.moment

    def rows(self, sql: str, parameters: Mapping[str, Any] | Sequence[Any] = ()) -> list[Json]:
        """Return what ``sql`` finds, each row by the names of its columns."""
        found = self.connection.execute(sql, parameters)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def flush(self) -> None:
        """Sum up what has been recorded since the last time."""
        last = self._last()
        if last > self._summed:
            for statement in ADD_SUMS:
                self.connection.execute(statement, (self._summed,))
            self._summed = last
        self._kept = self._looked.copy()

    def forget(self) -> None:
        """Forget what has been remembered of what was not kept."""
        self.names.forget()
        self._looked = self._kept.copy()
        self._summed = self._last()

    def _last(self) -> int:
        last: int
        (last,) = self.connection.execute("SELECT ifnull(max(id), 0) FROM exchanges").fetchone()
        return last
