"""Rows of exchanges: written one by one, summed up by the minute and the hour."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from operator import add
from typing import NamedTuple

from cacheproxy.core.conversation.speeds import generation_of, prefill_of
from cacheproxy.totals.migrations import first_class
from cacheproxy.totals.names import Names, safe
from cacheproxy.totals.record import LONGEST_PLACE, Record

STEPS = (60_000, 3_600_000)
"""Milliseconds of what is summed up."""

_COLUMNS = (
    "at", "number", "upstream", "session", "model", "dialect", "outcome", "verdict", "reason",
    "shape", "rules", "turn", "side", "failed", "under_way", "status", "prompt", "reused",
    "evaluated", "output", "prompt_ms", "output_ms", "first_ms", "total_ms", "added_us", "lost",
    "lost_ms", "spared", "spared_ms", "up", "down", "place",
)  # fmt: skip
_INSERT = (
    f"INSERT INTO exchanges ({', '.join(_COLUMNS)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)
_SUMS = (
    "requests", "turns", "failed", "breaks", "prompt", "reused", "evaluated", "output", "lost",
    "spared", "timed_prompt", "prompt_ms", "timed_output", "output_ms", "added_us", "sent",
    "spared_ms", "unpriced",
)  # fmt: skip
_ADD_ROLLUP = (
    f"INSERT INTO rollups (step, upstream, at, first_ms, {', '.join(_SUMS)}) "  # noqa: S608
    f"VALUES (?, ?, ?, ?, {', '.join('?' * len(_SUMS))}) "
    "ON CONFLICT DO UPDATE SET first_ms = max(first_ms, excluded.first_ms), "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
)
_ADD_FIRST = (
    "INSERT INTO rollup_firsts VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET count = count + excluded.count"
)
_ADD_BREAK = (
    "INSERT INTO rollup_breaks VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET count = count + 1, lost = lost + excluded.lost, "
    "lost_ms = lost_ms + excluded.lost_ms, last = excluded.last"
)
_TOUCH_SESSION = (
    "UPDATE sessions SET last = max(last, ?), model = ifnull(?, model), requests = requests + 1, "
    "turns = turns + ?, breaks = breaks + ?, prompt = prompt + ?, reused = reused + ?, "
    "output = output + ?, context = ifnull(?, context) WHERE id = ?"
)


class _Row(NamedTuple):
    """A record's figures as the file has them: numbers for names, whole milliseconds."""

    record: Record
    at: int
    upstream: int
    session: int | None
    reason: int | None
    shape: int | None
    prompt_ms: int | None
    output_ms: int | None
    first_ms: int | None
    lost_ms: int | None
    spared_ms: int | None
    added_us: int | None


class Exchanges:
    """Writes records. Sums by the minute and the hour wait in memory until ``flush``."""

    def __init__(self, connection: sqlite3.Connection, names: Names) -> None:
        self._connection = connection
        self._names = names
        self._sums: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0] * len(_SUMS))
        self._longest: dict[tuple[int, int, int], int] = defaultdict(int)
        self._firsts: dict[tuple[int, int, int, int], int] = defaultdict(int)

    def insert(self, record: Record, *, under_way: bool) -> int:
        """Write ``record``; return the number of its row."""
        row = self._row(record)
        word = self._names.word
        cursor = self._connection.execute(
            _INSERT,
            (
                row.at,
                record.number,
                row.upstream,
                row.session,
                word(record.model),
                word(record.dialect),
                word(record.outcome),
                word(record.verdict),
                row.reason,
                row.shape,
                word(record.rules),
                record.turn,
                record.side,
                record.failed,
                under_way,
                record.status,
                record.prompt,
                record.reused,
                record.evaluated,
                record.output,
                row.prompt_ms,
                row.output_ms,
                row.first_ms,
                milliseconds(record.seconds),
                row.added_us,
                record.lost,
                row.lost_ms,
                record.spared,
                row.spared_ms,
                record.up,
                record.down,
                None if record.place is None else safe(record.place, LONGEST_PLACE),
            ),
        )
        number = cursor.lastrowid
        assert number is not None
        if record.is_break:
            self._add_break(row, number)
        if row.session is not None:
            self._touch(row)
        self._sum_up(row)  # last: it cannot fail
        return number

    def _row(self, record: Record) -> _Row:
        names = self._names
        at = milliseconds(record.wall) or 0
        upstream = names.upstream(record.upstream, at)
        session = None
        if record.session is not None:
            session = names.session(record.client, record.session, upstream, at)
        return _Row(
            record,
            at,
            upstream,
            session,
            reason=names.word(record.reason),
            shape=names.word(record.shape),
            prompt_ms=milliseconds(record.prompt_seconds),
            output_ms=milliseconds(record.output_seconds),
            first_ms=milliseconds(record.first_byte),
            lost_ms=milliseconds(record.lost_seconds),
            spared_ms=milliseconds(record.spared_seconds),
            added_us=None if record.added is None else round(record.added * 1e6),
        )

    def flush(self) -> None:
        """Write the sums."""
        execute = self._connection.execute
        for key, sums in self._sums.items():
            execute(_ADD_ROLLUP, (*key, self._longest.get(key, 0), *sums))
        for wait, count in self._firsts.items():
            execute(_ADD_FIRST, (*wait, count))
        self.forget()

    def forget(self) -> None:
        """Drop the sums: what they sum up has not been kept."""
        self._sums.clear()
        self._longest.clear()
        self._firsts.clear()

    def _sum_up(self, row: _Row) -> None:
        record = row.record
        timed_prompt = prefill_of(record.evaluated, _seconds(row.prompt_ms)) is not None
        timed_output = generation_of(record.output, _seconds(row.output_ms)) is not None
        amounts = (
            1,
            record.turn > 0,
            record.failed,
            record.is_break,
            record.prompt or 0,
            record.reused or 0,
            record.evaluated or 0,
            record.output or 0,
            record.lost or 0,
            record.spared or 0,
            (record.evaluated or 0) if timed_prompt else 0,
            (row.prompt_ms or 0) if timed_prompt else 0,
            (record.output or 0) if timed_output else 0,
            (row.output_ms or 0) if timed_output else 0,
            row.added_us or 0,
            row.added_us is not None,
            row.spared_ms or 0,
            (record.spared or 0) if row.spared_ms is None else 0,
        )
        for step in STEPS:
            key = (step, row.upstream, row.at // step * step)
            self._sums[key] = list(map(add, self._sums[key], amounts))
            if row.first_ms is not None:
                self._longest[key] = max(self._longest[key], row.first_ms)
                if record.turn:
                    self._firsts[*key, first_class(row.first_ms)] += 1

    def _add_break(self, row: _Row, number: int) -> None:
        for step in STEPS:
            self._connection.execute(
                _ADD_BREAK,
                (
                    step,
                    row.upstream,
                    row.at // step * step,
                    row.reason,
                    row.shape or 0,
                    row.record.lost or 0,
                    row.lost_ms or 0,
                    number,
                ),
            )

    def _touch(self, row: _Row) -> None:
        record = row.record
        known = record.reused is not None and record.prompt is not None
        context = None
        if record.turn and not record.side and record.prompt is not None:
            context = record.prompt + (record.output or 0)
        self._connection.execute(
            _TOUCH_SESSION,
            (
                row.at,
                None if record.model is None else safe(record.model),
                record.turn > 0 and not record.side,
                record.is_break,
                record.prompt if known else 0,
                record.reused if known else 0,
                record.output or 0,
                context,
                row.session,
            ),
        )


def milliseconds(seconds: float | None) -> int | None:
    """Return ``seconds`` in whole milliseconds; None for None."""
    return None if seconds is None else round(seconds * 1e3)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
