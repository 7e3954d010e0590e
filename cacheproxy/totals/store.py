"""An open file of totals, as its one thread writes and reads it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from cacheproxy.totals.names import Names, safe
from cacheproxy.totals.record import LONGEST_PLACE
from cacheproxy.totals.sums import ADD_SUMS

Json = dict[str, Any]

_WORDS = ("model", "dialect", "outcome", "verdict", "reason", "shape", "rules", "rendered")
_SERVES = "UPDATE upstreams SET served = :served WHERE id = :upstream AND served IS NOT :served"
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


class TotalsStore:
    """Writes records. ``first``: the first row of this run, whose numbers still hold.

    ``flush`` comes before a commit, ``forget`` after a rollback.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        (self.first,) = connection.execute(
            "SELECT ifnull(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'exchanges'"
        ).fetchone()
        self.names = Names(connection)
        self._summed = self._last()
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(exchanges)")][1:]
        self._insert = (
            f"INSERT INTO exchanges ({', '.join(columns)}) "  # noqa: S608 - our own names
            f"VALUES (:{', :'.join(columns)})"
        )

    def record(self, record: Json) -> None:
        """Write an exchange: what ``record_of`` returns."""
        names, at, execute = self.names, record["at"], self.connection.execute
        row = record | {name: names.word(record[name]) for name in _WORDS}
        upstream = row["upstream"] = names.upstream(record["upstream"], at)
        execute(_SERVES, row)
        if record["place"] is not None:
            row["place"] = safe(record["place"], LONGEST_PLACE)
        if record["session"] is not None:
            root = record["root"]
            is_of_another = root is not None and root.id != record["session"]
            row["root"] = (
                names.session(root.client, root.id, upstream, at) if is_of_another else None
            )
            row["session"] = names.session(record["client"], record["session"], upstream, at)
            execute(_TOUCH_SESSION, row)
        if record["route"] is not None:
            execute(_ADD_ROUTED, row)
        execute(self._insert, row)

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

    def forget(self) -> None:
        """Forget what has been remembered of what was not kept."""
        self.names.forget()
        self._summed = self._last()

    def _last(self) -> int:
        found = self.connection.execute("SELECT ifnull(max(id), 0) FROM exchanges")
        return int(found.fetchone()[0])
