"""The sums over exchanges, in SQL: by the minute, by the hour and for ever; queried by window.

A window's figures come from the sums by its step or, if that is 0, from the exchanges themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from cacheproxy.core.conversation.speeds import LEAST_EVALUATED, LEAST_OUTPUT, LEAST_OUTPUT_MS
from cacheproxy.record.columns import EXCHANGES

STEPS = (60_000, 3_600_000)
"""Milliseconds that one row of the sums covers."""
EVER = 1 << 62
"""Milliseconds of the step that covers all time: the lifetime totals."""
SCOPE = "at >= :start AND at < :end"
"""Condition for the exchanges of a window; _STEP_SCOPE: for its sums."""
_STEP_SCOPE = f"{SCOPE} AND step = :step AND upstream IN (SELECT id FROM upstreams)"  # noqa: S608
"""Condition for a window's sums. It names all upstreams, which come before the time in the keys:
that saves most of the reading."""
IS_BREAK = "reason IS NOT NULL AND side = 0"
_PREFILL = f"CASE WHEN evaluated >= {LEAST_EVALUATED} AND prompt_ms > 0 THEN"
_GENERATION = f"CASE WHEN output >= {LEAST_OUTPUT} AND output_ms >= {LEAST_OUTPUT_MS} THEN"


class Rollup(NamedTuple):
    """A table of sums by step, upstream and ``keys``."""

    table: str  #: its name
    sums: Mapping[str, str]  #: summed columns, each with its SQL over ``exchanges``
    longest: Mapping[str, str] = {}  #: columns of the largest value, likewise
    keys: Mapping[str, str] = {}  #: columns of the key besides step, upstream and time, likewise
    only: str = "1"  #: condition for the exchanges that are summed, as SQL
    steps: tuple[int, ...] = STEPS  #: lengths in ms of the periods summed

    @property
    def add(self) -> str:
        """The statement that adds the exchanges with an ``id`` above its parameter."""
        columns = {**self.keys, **self.longest, **self.sums}
        steps = " UNION ALL ".join(f"SELECT {step} AS step" for step in self.steps)
        changes = [f"{name} = max({name}, excluded.{name})" for name in self.longest]
        changes += [f"{name} = {name} + excluded.{name}" for name in self.sums]
        return (
            f"INSERT INTO {self.table} (step, upstream, at, {', '.join(columns)}) "  # noqa: S608
            f"SELECT step, upstream, at / step * step, {', '.join(columns.values())} "
            f"FROM exchanges CROSS JOIN ({steps}) WHERE id > ? AND {self.only} "
            f"GROUP BY {_places(3 + len(self.keys))} "
            f"ON CONFLICT DO UPDATE SET {', '.join(changes)}"
        )

    def of(self, step: int, **by: str) -> str:
        """Return the query for a window's sums, made from those by ``step``; ``by``: more keys."""
        if step:
            columns = {**by, **{name: name for name in self.keys}}
            columns |= {name: f"max({name})" for name in self.longest}
            columns |= {name: f"sum({name})" for name in self.sums}
            where = f"{self.table} WHERE {_STEP_SCOPE}"
        else:
            columns = {**by, **self.keys, **self.longest, **self.sums}
            where = f"exchanges WHERE {SCOPE} AND {self.only}"
        chosen = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        groups = _places(len(by) + len(self.keys))
        return f"SELECT {chosen} FROM {where} GROUP BY {groups} ORDER BY {groups}"  # noqa: S608


def _places(count: int) -> str:
    return ", ".join(str(place) for place in range(1, count + 1))


ALL = Rollup(
    "rollups",
    {
        "requests": "count(*)",
        "turns": "sum(turn > 0)",
        "failed": "sum(failed)",
        "breaks": f"sum({IS_BREAK})",
        **{each.name: f"total({each.name})" for each in EXCHANGES if each.sums},
        "timed_prompt": f"total({_PREFILL} evaluated END)",
        "prompt_ms": f"total({_PREFILL} prompt_ms END)",
        "timed_output": f"total({_GENERATION} output END)",
        "output_ms": f"total({_GENERATION} output_ms END)",
        "sent": "count(added_us)",
        "unpriced": "total(CASE WHEN spared_ms IS NULL THEN spared END)",
    },
    longest={
        "first_ms": "ifnull(max(first_ms), 0)",
        "context": "ifnull(max(CASE WHEN turn > 0 AND side = 0 THEN prompt END), 0)",
    },
    steps=(*STEPS, EVER),
)
FIRSTS = Rollup(
    "rollup_firsts",
    {"count": "count(*)"},
    keys={"class": "first_class(first_ms)"},
    only="turn > 0 AND first_ms IS NOT NULL",
)
BREAKS = Rollup(
    "rollup_breaks",
    {"count": "count(*)", "lost": "total(lost)", "lost_ms": "total(lost_ms)"},
    longest={"last": "max(id)"},
    keys={"reason": "reason", "shape": "ifnull(shape, 0)"},
    only=IS_BREAK,
)
GROUPS = Rollup(
    "rollup_groups",
    {
        "requests": "count(*)",
        **{name: f"total({name})" for name in ("prompt", "reused", "evaluated")},
        "lost": f"total(CASE WHEN {IS_BREAK} THEN lost END)",
        "lost_ms": f"total(CASE WHEN {IS_BREAK} THEN lost_ms END)",
    },
    keys={
        "client": "ifnull((SELECT client FROM sessions WHERE sessions.id = session), '')",
        "model": "ifnull(model, 0)",
    },
)
ROLLUPS = (ALL, FIRSTS, BREAKS, GROUPS)
_FIRST_SEEN = """
UPDATE upstreams SET first_seen = new.at
FROM (SELECT upstream, min(at) AS at FROM exchanges WHERE id > ? GROUP BY 1) AS new
WHERE new.upstream = upstreams.id AND new.at < first_seen
"""
"""Statement that corrects ``first_seen``, if the clock was ahead then and was set back since."""
ADD_SUMS = (*(each.add for each in ROLLUPS), _FIRST_SEEN)


def first_class(milliseconds: int) -> int:
    """Return the class of a wait, by quarter powers of two: its middle is within 9 %."""
    return round(4 * math.log2(max(1, milliseconds)))


def class_middle(number: int) -> float:
    """Return the milliseconds in the middle of a class."""
    return float(2 ** (number / 4))
