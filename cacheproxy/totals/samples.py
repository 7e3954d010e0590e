"""What the upstream's counters gained, by time: fine where it is fresh, coarse where it is old."""

from __future__ import annotations

import sqlite3

from cacheproxy.core.server.counters import NAMES, Figures
from cacheproxy.core.server.status import Look

SAMPLE_STEPS = (1000, 10_000, 60_000, 3_600_000)
"""Milliseconds: looks are kept by the second at first, then by coarser steps."""
RAW = SAMPLE_STEPS[0]
SAMPLE_COLUMNS = ("looks", *NAMES, "running", "waiting", "kv")
ADD_SAMPLES = "ON CONFLICT DO UPDATE SET looks = looks + excluded.looks, " + ", ".join(
    f"{name} = CASE WHEN excluded.{name} IS NULL THEN {name} "
    f"ELSE ifnull({name}, 0) + excluded.{name} END"
    for name in SAMPLE_COLUMNS[1:]
)
_INSERT = (
    f"INSERT INTO samples (step, upstream, at, {', '.join(SAMPLE_COLUMNS)}) "  # noqa: S608
    f"VALUES ({RAW}, ?, ?, 1, {', '.join('?' * (len(SAMPLE_COLUMNS) - 1))}) {ADD_SAMPLES}"
)


def add_sample(
    connection: sqlite3.Connection, upstream: int, at: int, figures: Figures, look: Look
) -> None:
    """Write what was gained until ``at`` (ms). Two of one second, after a clock's jump, are one."""
    sample = look.sample
    running = sample.running if sample is not None else None
    if running is None and look.slots:
        running = sum(slot.busy for slot in look.slots)
    amounts = (getattr(figures, name) for name in NAMES)
    waiting = sample.waiting if sample is not None else None
    row = (upstream, at // RAW * RAW, *amounts, running, waiting, look.kv)
    connection.execute(_INSERT, row)
