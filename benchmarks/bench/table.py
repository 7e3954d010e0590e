"""The tables that are printed: one row a peer, one table a group, then the goals."""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import Figures
from bench.goals import Goal
from bench.targets import DIRECT

COMPARED = ("bun", "nginx")
RATIOS = {
    "ttfb": ("80 KB", "500 KB"),
    "cpu": ("80 KB",),
    "rps": ("32",),
    "chunks": ("32",),
}
TITLES = {
    "bytes": "Bytes: 1 where what came through is what was sent, but for the header's line",
    "ttfb": "Time to first byte beyond direct, one request at a time, median, µs (direct: whole)",
    "ttfb p99": "The same, 99th percentile",
    "cpu": "CPU of the proxy per request, one at a time, µs",
    "rps": "Requests a second by connections, 80 KB",
    "streams": "Streams of 50 events/s: each chunk's latency beyond direct, ms (latest: whole)",
    "chunks": "Chunks a second by streams, as fast as it goes",
    "memory": "Memory",
    "growth ttfb": "Time to first byte by turns of the conversation, µs",
    "growth cpu": "CPU of the proxy per request by turns of the conversation, µs",
    "rules": "Rules alone, µs by body",
    "rules MB/s": "The same, MB/s",
}


def number(value: float | None) -> str:
    """Three figures, thousands apart; a dash for nothing."""
    if value is None:
        return "-"
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2}f}"


def plain(rows: Sequence[Sequence[str]]) -> str:
    """Columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def group_table(figures: Figures, group: str) -> str:
    """The table of ``group``, with the ratios to the peers that it is compared with."""
    names = list(figures.rounds[group])
    peers = figures.peers(group)
    shown = [
        (figure, other)
        for figure in RATIOS.get(group, ())
        for other in COMPARED
        if figure in names and other in peers
    ]
    rows = [["", *names, *(f"{figure} /{other}" for figure, other in shown)]]
    for peer in peers:
        cells = [number(figures.get(group, figure, peer)) for figure in names]
        cells += [
            "" if peer == DIRECT else number(figures.ratio(group, figure, peer, other))
            for figure, other in shown
        ]
        rows.append([peer, *cells])
    return f"{TITLES[group]}\n{plain(rows)}\n"


def goals_table(goals: Sequence[Goal], figures: Figures, ours: str) -> str:
    rows = [["goal", "measured", "bar", ""]]
    for goal in goals:
        value, bar = goal.measured(figures, ours), goal.bar(figures)
        if value is None or bar is None:
            continue
        met = "met" if goal.met(value, bar) else "NOT met"
        rows.append([goal.text, number(value), number(bar), met])
    return f"Goals, of {ours}\n{plain(rows)}\n"
