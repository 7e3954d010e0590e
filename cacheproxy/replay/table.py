"""The tables of a replay: the sums of both passes, and each pass turn by turn.

A table is rows of cells, the first row its heads; how it is laid out is for the reader's medium.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.replay.figures import Figures, Row, Total
from cacheproxy.replay.run import AS_CAPTURED, THROUGH
from cacheproxy.replay.words import UNKNOWN, count, seconds, share

Cells = tuple[str, ...]

_SESSION = 12
"""Characters of a session's label."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a table; ``remark``: what stands below it, empty for most."""

    cells: Cells
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under their heads; the first ``left`` columns are words, the rest numbers."""

    heads: Cells
    lines: tuple[Line, ...]
    left: int = 1

    def text(self) -> list[str]:
        """Return it as lines of plain text, columns two spaces apart."""
        rows = [self.heads, *(line.cells for line in self.lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        laid = [self._laid(self.heads, widths)]
        for line in self.lines:
            laid.append(self._laid(line.cells, widths))
            if line.remark:
                laid.append(f"       {line.remark}")
        return laid

    def markdown(self) -> list[str]:
        """Return it as a Markdown table, each remark in its row's last cell."""
        rule = [":--" if index < self.left else "--:" for index in range(len(self.heads))]
        rows = [self.heads, tuple(rule)]
        for line in self.lines:
            *cells, last = line.cells
            rows.append((*cells, f"{last} {line.remark}".strip()))
        return [f"| {' | '.join(row)} |" for row in rows]

    def _laid(self, cells: Cells, widths: Sequence[int]) -> str:
        aligned = (
            cell.ljust(width) if index < self.left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"  {'  '.join(aligned)}".rstrip()


def summary(figures: Figures) -> Table:
    """Return the sums, a column for each pass."""
    what = "prefill" if figures.server_time else "first token"
    columns = [_sums(total) for total in figures.totals]
    names = (
        "prompt tokens",
        "reused",
        "evaluated",
        f"{what}, total",
        f"{what}, median turn",
        "slowest turn",
    )
    lines = tuple(Line(cells) for cells in zip(names, *columns, strict=True))
    return Table(("", AS_CAPTURED, THROUGH), lines)


def turns(rows: Sequence[Row], *, sessions: bool, prefill: bool) -> Table:
    """Return one pass; ``sessions``, ``prefill``: whether it has these columns."""
    heads = ["#", *(["session"] if sessions else []), "turn", "prompt", "reused", "", "new"]
    heads += [*(["prefill"] if prefill else []), "first", "expected", "verdict"]
    lines = tuple(
        Line(tuple(_cells(row, sessions=sessions, prefill=prefill)), _remark(row)) for row in rows
    )
    return Table(tuple(heads), lines, left=2 if sessions else 1)


def expected(row: Row) -> str:
    """Return what could be reused, an estimate with its mark."""
    known = row.assessed.expected
    if known is None:
        return "-"
    return f"{'' if known.exact else '~'}{count(known.tokens)}"


def verdict(row: Row) -> str:
    """Return one word on a turn."""
    judged = row.assessed.verdict
    return "failed" if row.failed or judged is None else judged.judgement.value


def _cells(row: Row, *, sessions: bool, prefill: bool) -> list[str]:
    place = row.assessed.turn.place
    return [
        str(row.number),
        *([place.session.label[:_SESSION]] if sessions else []),
        "side" if place.is_side else str(place.turn),
        count(row.prompt),
        count(row.reused),
        "" if row.share is None else share(row.share),
        count(row.evaluated),
        *([seconds(row.prefill)] if prefill else []),
        seconds(row.first),
        expected(row),
        verdict(row),
    ]


def _remark(row: Row) -> str:
    judged, status = row.assessed.verdict, row.assessed.turn.answer.status
    if row.failed:  # what the server said of it may quote the prompt
        return f"answered {status}" if status else "the connection broke"
    if judged is None or judged.reason is None:
        return ""
    where = judged.where
    words = judged.reason.value
    if where is not None:
        words += f" at {where.path}: {where.kind.value}"
    if judged.lost is not None:
        about = "~" if judged.lost.source == "estimated" else ""
        words += f"; {about}{count(judged.lost.tokens)} tokens evaluated again"
    return words


def _sums(total: Total) -> Cells:
    slowest = UNKNOWN
    if total.slowest is not None:
        row, judged = total.slowest, total.slowest.assessed.verdict
        time = row.prefill if row.prefill is not None else row.first
        cold = judged is not None and judged.judgement is Judgement.COLD
        slowest = f"{seconds(time)} (#{row.number}{', cold' if cold else ''})"
    return (
        count(total.prompt),
        UNKNOWN if total.reused is None else f"{count(total.reused)} {share(total.share)}",
        count(total.evaluated),
        seconds(total.seconds),
        seconds(total.median),
        slowest,
    )
