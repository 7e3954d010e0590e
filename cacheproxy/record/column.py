"""A column: one fact of an exchange, as it is shown somewhere.

What is shown of an exchange is a table of these: the log line, the line of a capture, the row of a
page, of the totals, a span's attributes. To show one more fact is one more row in that table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from cacheproxy.record.exchange import Exchange


class RecordColumn(NamedTuple):
    """One fact of an exchange."""

    name: str  #: as it is called where it is shown
    of: str | Callable[[Exchange], Any]
    """Its field (``status``, ``usage.prompt``), or what returns its value; None: not known."""
    unit: str = ""  #: of the value: ``tokens``, ``s``, ``ms``, ``bytes``; "": it has none


def row_of(columns: Sequence[RecordColumn]) -> Callable[[Exchange], dict[str, Any]]:
    """Return what makes a row of an exchange: its values by the columns' names, in their order.

    All that are fields are taken by one call, since each turn is shown in several tables.
    """
    blank: dict[str, Any] = dict.fromkeys(column.name for column in columns)
    fields = {column.name: column.of for column in columns if isinstance(column.of, str)}
    made = [(column.name, column.of) for column in columns if not isinstance(column.of, str)]
    taken = attrgetter(*fields.values(), "number", "wall")  # of one name it would be no tuple

    def row(exchange: Exchange) -> dict[str, Any]:
        found = {**blank, **dict(zip(fields, taken(exchange), strict=False))}
        for name, of in made:
            found[name] = of(exchange)
        return found

    return row
