"""The tables of a replay: the sums of both passes, and each pass turn by turn.

A table is rows of cells with heads; its layout depends on the medium, a terminal or Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.words import UNKNOWN, count, seconds, share
from cacheproxy_replay.estimate import Assessed, ReplayFigures, Total
from cacheproxy_replay.run import AS_CAPTURED, THROUGH

Cells = tuple[str, ...]

_SESSION = 12
"""Characters of a session's label, at most."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under their heads."""

    heads: Cells  #: heads of the columns
    lines: tuple[tuple[Cells, str], ...]
    """Rows in order: a cell for each head, and a remark to stand below them, "" for none."""
    left: int = 1  #: number of columns with words, at the left; the others have numbers

    def text(self) -> list[str]:
        """Return the table as lines of plain text, with columns two spaces apart."""
        rows = [(self.heads, ""), *self.lines]
        widths = [
            max(map(len, column)) for column in zip(*(cells for cells, _ in rows), strict=True)
        ]
        laid = []
        for cells, remark in rows:
            aligned = (
                cell.ljust(width) if index < self.left else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            laid.append(f"  {'  '.join(aligned)}".rstrip())
            if remark:
                laid.append(f"       {remark}")
        return laid

    def markdown(self) -> list[str]:
        """Return the table in Markdown, with each remark in its row's last cell."""
        rule = [":--" if index < self.left else "--:" for index in range(len(self.heads))]
        rows = [self.heads, tuple(rule)]
        for (*cells, last), remark in self.lines:
            rows.append((*cells, f"{last} {remark}".strip()))
        return [f"| {' | '.join(row)} |" for row in rows]


def summary(figures: ReplayFigures) -> Table:
    """Return the table of the sums, a column for each pass."""
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
    lines = tuple((cells, "") for cells in zip(names, *columns, strict=True))
    return Table(("", AS_CAPTURED, THROUGH), lines)


def turns(rows: Sequence[Assessed], *, sessions: bool, prefill: bool) -> Table:
    """Return the table of a pass's turns; ``sessions``, ``prefill``: whether to show them."""
    heads = ["#", *(["session"] if sessions else []), "turn", "prompt", "reused", "", "new"]
    heads += [*(["prefill"] if prefill else []), "first", "expected", "verdict"]
    lines = [(_cells(row, sessions=sessions, prefill=prefill), _remark(row)) for row in rows]
    return Table(tuple(heads), tuple(lines), left=2 if sessions else 1)


def verdict(row: Assessed) -> str:
    """Return the verdict on a turn in one word."""
    return "failed" if row.failed or row.verdict is None else row.verdict.judgement.value


def _cells(row: Assessed, *, sessions: bool, prefill: bool) -> Cells:
    """Return a turn's cells in the order of the heads, figures in words."""
    turn, usage, known = row.turn, row.usage, row.expected
    has_share = usage.prompt and usage.reused is not None
    return (
        str(row.number),
        *([turn.session.label[:_SESSION]] if sessions and turn.session else []),
        "side" if turn.side else str(turn.turn),
        count(usage.prompt),
        count(usage.reused),
        share((usage.reused or 0) / (usage.prompt or 1)) if has_share else "",
        count(usage.evaluated),
        *([seconds(usage.prompt_seconds)] if prefill else []),
        seconds(row.turn.first_byte),
        "-" if known is None else f"{'' if known.exact else '~'}{count(known.tokens)}",
        verdict(row),
    )


def _remark(row: Assessed) -> str:
    """Return why a turn failed or lost the cache, "" if it did not; no text of a prompt."""
    judged, status = row.verdict, row.turn.status
    if row.failed:  # the server's error text may quote the prompt
        return f"answered {status}" if status else "the connection broke"
    if judged is None or judged.reason is None:
        return ""
    words = judged.reason.value
    if judged.where is not None:
        words += f" at {judged.where.path}: {judged.where.kind.value}"
    if judged.lost is not None:
        about = "~" if judged.lost.source == "estimated" else ""
        words += f"; {about}{count(judged.lost.tokens)} tokens evaluated again"
    return words


def _sums(total: Total) -> Cells:
    """Return the cells of a pass's column, in the order of the names in ``summary``."""
    slowest = UNKNOWN
    if (row := total.slowest) is not None:
        time = row.turn.first_byte if (own := row.usage.prompt_seconds) is None else own
        cold = row.verdict is not None and row.verdict.judgement is Judgement.COLD
        slowest = f"{seconds(time)} (#{row.number}{', cold' if cold else ''})"
    return (
        count(total.prompt),
        UNKNOWN if total.reused is None else f"{count(total.reused)} {share(total.share)}",
        count(total.evaluated),
        seconds(total.seconds),
        seconds(total.median),
        slowest,
    )
