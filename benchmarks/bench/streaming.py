"""The group streams: added latency per chunk, chunks a second, CPU per chunk."""

from __future__ import annotations

import statistics
import time

from bench import process
from bench.figures import Figures
from bench.requests import percentile, rotated
from bench.run import Run
from bench.streams import Streams
from bench.targets import DIRECT, Target

COUNTS = (1, 32, 200)
RATE = 50
"""Events a second on each stream."""


def measure(targets: list[Target], run: Run) -> None:
    """Every round goes over all targets, of which the first is the direct way."""
    body, plan = run.bodies["80 KB"], run.plan
    for target in targets:
        # A proxy may first try out the server with the request's headers: an answer without end,
        # which they ask the upstream for, would hold up all streams.
        try:
            with Streams(target.port, body, 1, "flood 1") as streams:
                streams.begin()
        except (OSError, RuntimeError) as error:
            run.note(target.name, f"first stream: {error!r}")
    for count in COUNTS:
        for number in range(plan.stream_rounds):
            found = {}
            for target in [targets[0], *rotated(targets[1:], number)]:
                try:
                    found[target.name] = _latencies(target, count, run)
                except (OSError, RuntimeError) as error:
                    run.note(target.name, f"{count} streams: {error!r}")
                time.sleep(0.3)  # the streams' ends go through
            _add(run.figures, count, found)
    for count in COUNTS:
        for number in range(plan.stream_rounds):
            for target in rotated(targets, number):
                try:
                    with Streams(target.port, body, count, "flood 0") as streams:
                        streams.begin()
                        # a slow proxy takes more than a second for a turn over all of 200
                        rate = streams.flood(plan.flood_seconds * (1 + (count == COUNTS[-1])))
                        run.figures.add("chunks", f"{count}", target.name, rate)
                except (OSError, RuntimeError) as error:
                    run.note(target.name, f"{count} streams of flood: {error!r}")
                time.sleep(0.5)


def _latencies(target: Target, count: int, run: Run) -> list[float]:
    with Streams(target.port, run.bodies["80 KB"], count, f"paced {RATE}") as streams:
        streams.begin()
        pids = target.pids()
        before = process.cpu_ns(pids)
        found = streams.latencies(run.plan.stream_seconds, lambda: None)
        used = process.cpu_ns(pids) - before
    if pids and count == COUNTS[-1]:
        chunks = (run.plan.stream_seconds + 0.4) * count * RATE
        run.figures.add("chunks", "cpu µs/chunk at 50/s", target.name, used / 1e3 / chunks)
    return found


def _add(figures: Figures, count: int, found: dict[str, list[float]]) -> None:
    """Medians and 99th percentiles beyond direct's; the latest chunk as it was."""
    direct = found.get(DIRECT, [])
    for target, values in found.items():
        base = direct if target != DIRECT else []
        median = statistics.median(values) - (statistics.median(base) if base else 0)
        p99 = percentile(values, 99) - (percentile(base, 99) if base else 0)
        figures.add("streams", f"median {count}", target, median * 1e3)
        figures.add("streams", f"p99 {count}", target, p99 * 1e3)
        figures.add("streams", f"latest {count}", target, max(values) * 1e3)
