"""Lifetime totals per upstream and model: over all restarts, of the server's and ours.

Each figure has two parts, of which none is counted in the other: ``counters``, what the server's
own counters gained (whoever asked it), and ``responses``, what answers told that passed through
here while no counter tells it: the server has no ``/metrics``, not this counter, or ended before
its counters were read again (see ``cacheproxy.core.server.counters``).

**Spared.** The sums of what each exchange came with (``core.spared``), tokens and seconds: no
price is made here. Tokens of which nobody knew the price are summed by themselves.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from cacheproxy.core.server.counters import (
    NAMES,
    NOTHING,
    Figures,
    Reading,
    Told,
    gain,
    settle,
    total,
)
from cacheproxy.core.server.status import Look, Metrics, State
from cacheproxy.totals.names import Names
from cacheproxy.totals.record import milliseconds
from cacheproxy.totals.samples import add_sample

_FIGURES = (
    "prompt",
    "reused",
    "evaluated",
    "output",
    "prompt_ms / 1e3",
    "output_ms / 1e3",
    "iif(turn > 0 AND NOT failed AND status IS NOT NULL, 1, NULL)",
)
"""Of an exchange, in the order of ``counters.NAMES``."""
_PENDING = f"""
SELECT e.id, at, model.text, failed, turn > 0, iif(side, NULL, reason.text), ifnull(lost, 0),
    ifnull(lost_ms, 0), ifnull(spared, 0), spared_ms, under_way,
    {", ".join(_FIGURES)}
FROM exchanges AS e
LEFT JOIN words AS model ON model.id = e.model LEFT JOIN words AS reason ON reason.id = e.reason
WHERE upstream = ? AND e.id > ? ORDER BY e.id
"""  # noqa: S608 - our own names
WAITING = f"""
SELECT count(*), total(spared), total(spared_ms) / 1e3,
    total(iif(spared_ms IS NULL, spared, 0)), {", ".join(f"sum({one})" for one in _FIGURES)}
FROM upstreams CROSS JOIN exchanges ON +upstream = upstreams.id AND exchanges.id > settled
"""  # noqa: S608 - our own names
"""What the exchanges since the last look at their upstream tell; without looks they are many.
SQLite does a CROSS JOIN in this order, and makes no index for ``+``: else it would read all
exchanges there are."""
_ADD = (
    "INSERT INTO lifetime (target, figure, counters, responses) VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET "
    "counters = counters + excluded.counters, responses = responses + excluded.responses"
)
_ADD_BREAK = (
    "INSERT INTO lifetime_breaks VALUES (?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET "
    "count = count + 1, lost = lost + excluded.lost, lost_ms = lost_ms + excluded.lost_ms"
)


class Pending(NamedTuple):
    """An exchange that is not yet in the totals; times in milliseconds."""

    id: int
    at: int
    model: str | None
    failed: int
    is_turn: int
    reason: str | None
    lost: int
    lost_ms: int
    spared: int
    spared_ms: int | None
    told: Told


def pending(connection: sqlite3.Connection, upstream: int, settled: int) -> list[Pending]:
    """Return the exchanges with ``upstream`` after the one that was ``settled`` last."""
    found = connection.execute(_PENDING, (upstream, settled))
    return [Pending._make((*row[:10], Told(Figures(*row[11:]), bool(row[10])))) for row in found]


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of an upstream between two looks.

    ``ahead``: what was counted by responses since ``reading``, while it did not tell counters.
    """

    reading: Reading | None = None
    unexplained: Figures = NOTHING
    ahead: Figures = NOTHING


class Lifetime:
    """Counts looks, and the exchanges since the last one, into the totals."""

    def __init__(self, connection: sqlite3.Connection, names: Names) -> None:
        self._connection = connection
        self._names = names

    def count(self, look: Look) -> None:
        """Count what ``look`` tells, and with it the exchanges since the last look.

        Where it tells nothing (the server is down or loads its model), they wait: its counters
        may still tell of them.
        """
        at = milliseconds(look.wall)
        upstream = self._names.upstream(look.url, at)
        if look.state is not State.UP or look.metrics is Metrics.UNKNOWN:
            return
        execute = self._connection.execute
        served, settled, text = execute(
            "SELECT served, settled, ifnull(reading, '{}') FROM upstreams WHERE id = ?", (upstream,)
        ).fetchone()
        known = msgspec.json.decode(text, type=Known)
        waiting = pending(self._connection, upstream, settled)
        reading = look.reading
        gained = gain(known.reading, reading) if reading is not None else None
        result = settle([each.told for each in waiting], gained, known.unexplained)
        target = self._names.target(upstream, look.served, at)
        tail = total(result.tails)
        figures = NOTHING
        if gained is not None:
            figures = gained.figures if gained.begun else gained.figures.beyond(known.ahead)
            self._add(target, figures, NOTHING)
            known = Known(reading, result.unexplained)
        else:
            ahead = known.ahead + tail.completed() if known.reading is not None else NOTHING
            known = Known(known.reading, NOTHING, ahead)
        add_sample(self._connection, upstream, at, figures + tail, look)
        for index, each in enumerate(waiting):
            model = (served or look.served) if index in result.before else look.served
            target = self._names.target(upstream, model or each.model, each.at)
            self._add(target, NOTHING, result.tails[index])
            self._add_own(target, each)
        execute(
            "UPDATE upstreams SET served = ?, metrics = ?, last_seen = ?, reading = ?, "
            "settled = max(settled, ?) WHERE id = ?",
            (
                look.served,
                look.metrics,
                at,
                msgspec.json.encode(known).decode(),
                waiting[-1].id if waiting else 0,
                upstream,
            ),
        )

    def _add(self, target: int, counters: Figures, responses: Figures) -> None:
        rows = [
            (target, name, getattr(counters, name) or 0.0, getattr(responses, name) or 0.0)
            for name in NAMES
        ]
        self._connection.executemany(_ADD, [row for row in rows if row[2] or row[3]])

    def _add_own(self, target: int, each: Pending) -> None:
        amounts: dict[str, float] = {
            "exchanges": 1,
            "turns": each.is_turn,
            "errors": each.failed,
            "spared": each.spared,
        }
        if each.reason is not None:
            amounts["breaks"] = 1
            self._connection.execute(_ADD_BREAK, (target, each.reason, each.lost, each.lost_ms))
        if each.spared_ms is None:
            amounts["spared_unpriced"] = each.spared
        else:
            amounts["spared_seconds"] = each.spared_ms / 1e3
        self._connection.executemany(
            _ADD, [(target, figure, 0.0, amount) for figure, amount in amounts.items() if amount]
        )
