"""Lifetime totals per upstream and model: over all restarts, of the server's and ours.

Each figure has two parts, of which none is counted in the other: ``counters``, what the server's
own counters gained (whoever asked it), and ``responses``, what answers told that passed through
here while no counter tells it: the server has no ``/metrics``, not this counter, or ended before
its counters were read again (see ``cacheproxy.core.server.counters``).

**Spared.** The sums of what each exchange came with (``core.spared``), tokens and seconds: no
price is made here. Tokens of which nobody knew the price are summed by themselves.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

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
from cacheproxy.totals.exchanges import milliseconds
from cacheproxy.totals.names import Names
from cacheproxy.totals.samples import add_sample

PENDING = (
    "SELECT id, under_way, prompt, reused, evaluated, output, prompt_ms, output_ms, failed, turn, "
    "side, lost, lost_ms, spared, spared_ms, (SELECT text FROM words WHERE id = reason), "
    "(SELECT text FROM words WHERE id = model), at, status "
    "FROM exchanges WHERE upstream = ? AND id > ? ORDER BY id"
)
_ADD = (
    "INSERT INTO lifetime (target, figure, counters, responses) VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET "
    "counters = counters + excluded.counters, responses = responses + excluded.responses"
)
_ADD_BREAK = (
    "INSERT INTO lifetime_breaks VALUES (?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET "
    "count = count + 1, lost = lost + excluded.lost, lost_ms = lost_ms + excluded.lost_ms"
)


@dataclass(frozen=True, slots=True)
class Pending:
    """An exchange that is not yet in the totals."""

    id: int
    told: Told
    model: str | None
    at: int
    failed: bool
    is_turn: bool
    reason: str | None
    lost: int
    lost_ms: int
    spared: int
    spared_ms: int | None


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
        at = milliseconds(look.wall) or 0
        upstream = self._names.upstream(look.url, at)
        served, settled, known = self._known(upstream)
        if look.state is not State.UP or look.metrics is Metrics.UNKNOWN:
            return
        pending = list(self._pending(upstream, settled))
        told = [each.told for each in pending]
        reading = look.reading
        gained = gain(known.reading, reading) if reading is not None else None
        result = settle(told, gained, known.unexplained)
        target = self._names.target(upstream, look.served, at)
        tail = total(result.tails)
        if gained is not None:
            figures = gained.figures if gained.begun else _less(gained.figures, known.ahead)
            self._add(target, figures, NOTHING)
            known = Known(reading, result.unexplained)
        else:
            figures = NOTHING
            ahead = known.ahead + tail.completed() if known.reading is not None else NOTHING
            known = Known(known.reading, NOTHING, ahead)
        add_sample(self._connection, upstream, at, figures + tail, look)
        for index, each in enumerate(pending):
            model = (served or look.served) if index in result.before else look.served
            self._count_exchange(upstream, model, each, result.tails[index])
        self._keep(upstream, look, at, pending, known)

    def _count_exchange(
        self, upstream: int, served: str | None, each: Pending, tail: Figures
    ) -> None:
        target = self._names.target(upstream, served or each.model, each.at)
        self._add(target, NOTHING, tail)
        self._count_own(target, each)

    def _count_own(self, target: int, each: Pending) -> None:
        amounts = {
            "exchanges": 1.0,
            "turns": float(each.is_turn),
            "errors": float(each.failed),
            "spared": float(each.spared),
        }
        if each.reason is not None:
            amounts["breaks"] = 1.0
            self._connection.execute(_ADD_BREAK, (target, each.reason, each.lost, each.lost_ms))
        if each.spared_ms is None:
            amounts["spared_unpriced"] = float(each.spared)
        else:
            amounts["spared_seconds"] = each.spared_ms / 1e3
        self._connection.executemany(
            _ADD, [(target, figure, 0.0, amount) for figure, amount in amounts.items() if amount]
        )

    def _add(self, target: int, counters: Figures, responses: Figures) -> None:
        rows = [
            (target, name, getattr(counters, name) or 0.0, getattr(responses, name) or 0.0)
            for name in NAMES
        ]
        self._connection.executemany(_ADD, [row for row in rows if row[2] or row[3]])

    def _pending(self, upstream: int, settled: int) -> Iterable[Pending]:
        for row in self._connection.execute(PENDING, (upstream, settled)):
            yield pending_of(row)

    def _known(self, upstream: int) -> tuple[str | None, int, Known]:
        served, settled, text = self._connection.execute(
            "SELECT served, settled, reading FROM upstreams WHERE id = ?", (upstream,)
        ).fetchone()
        return served, settled, _known_of(text)

    def _keep(
        self, upstream: int, look: Look, at: int, pending: list[Pending], known: Known
    ) -> None:
        self._connection.execute(
            "UPDATE upstreams SET served = ?, metrics = ?, last_seen = ?, reading = ?, "
            "settled = max(settled, ?) WHERE id = ?",
            (
                look.served,
                look.metrics,
                at,
                json.dumps(asdict(known)),
                max((each.id for each in pending), default=0),
                upstream,
            ),
        )


def pending_of(row: tuple[Any, ...]) -> Pending:
    """Return what a row of ``exchanges`` tells."""
    (
        number, under_way, prompt, reused, evaluated, output, prompt_ms, output_ms, failed, turn,
        side, lost, lost_ms, spared, spared_ms, reason, model, at, status,
    ) = row  # fmt: skip
    answered = bool(turn) and not failed and status is not None
    figures = Figures(
        prompt=prompt,
        reused=reused,
        evaluated=evaluated,
        generated=output,
        prefill=None if prompt_ms is None else prompt_ms / 1e3,
        generation=None if output_ms is None else output_ms / 1e3,
        requests=1 if answered else None,
    )
    return Pending(
        id=number,
        told=Told(figures, bool(under_way)),
        model=model,
        at=at,
        failed=bool(failed),
        is_turn=bool(turn),
        reason=None if side else reason,
        lost=lost or 0,
        lost_ms=lost_ms or 0,
        spared=spared or 0,
        spared_ms=spared_ms,
    )


def _known_of(text: str | None) -> Known:
    if text is None:
        return Known()
    found: Mapping[str, Any] = json.loads(text)
    reading = found["reading"]
    if reading is not None:
        figures = Figures(**reading["figures"])
        reading = Reading(figures, reading["start"], reading["tasks"])
    return Known(reading, Figures(**found["unexplained"]), Figures(**found["ahead"]))


def _less(figures: Figures, ahead: Figures) -> Figures:
    """Return ``figures`` without what has been counted already."""
    return Figures(
        *(
            None if (value := getattr(figures, name)) is None
            else max(0, value - (getattr(ahead, name) or 0))
            for name in NAMES
        )
    )  # fmt: skip
