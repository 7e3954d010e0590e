"""What the passes add up to, from what the server measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.replay.estimate import Assessed

_WARM_TOKENS = 128
_WARM = 0.05
"""More reuse than a pass's own prompts explain, by this part, was there before the pass."""

_NOT_OURS = (Reason.EVICTED, Reason.UNKNOWN, Reason.CHECKPOINT, Reason.NOT_CACHED)
"""Reasons that stand in no request: what the two share does not tell what is reused."""


@dataclass(frozen=True, slots=True)
class Row:
    """One turn; None where the server did not say.

    ``prefill``: the server's own seconds for the prompt; ``first``: seconds until the first token
    by our clock. ``answer``: the generated text.
    """

    assessed: Assessed
    prompt: int | None
    reused: int | None
    evaluated: int | None
    prefill: float | None
    first: float | None

    @property
    def number(self) -> int:
        """The request's number."""
        return self.assessed.turn.number

    @property
    def failed(self) -> bool:
        """Whether the server gave no good answer."""
        return self.assessed.turn.answer.error is not None

    @property
    def share(self) -> float | None:
        """The reused part of the prompt tokens, 0 to 1."""
        return None if self.reused is None or not self.prompt else self.reused / self.prompt

    @property
    def error(self) -> float | None:
        """How far our estimate is from what the server reused, as a part of the latter.

        None for cold turns and those that the server lost, and where either is not known.
        """
        expected, verdict = self.assessed.expected, self.assessed.verdict
        if verdict is None or verdict.judgement is Judgement.COLD:
            return None
        if expected is None or self.reused is None or verdict.reason in _NOT_OURS:
            return None
        return (expected.tokens - self.reused) / max(1, self.reused)


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of several turns; None where one of them lacks the figure.

    ``seconds``: prefill by the server's clock, or until the first token by ours.
    """

    prompt: int | None
    reused: int | None
    evaluated: int | None
    expected: int | None
    seconds: float
    median: float | None
    slowest: Row | None

    @property
    def share(self) -> float | None:
        """The reused part of the prompt tokens, 0 to 1."""
        return None if self.reused is None or not self.prompt else self.reused / self.prompt


@dataclass(frozen=True, slots=True)
class Figures:
    """Both passes, and their sums over the turns that both have.

    ``server_time``: the seconds of the sums are the server's own prefill times, else ours.
    """

    captured: tuple[Row, ...]
    through: tuple[Row, ...]
    server_time: bool
    totals: tuple[Total, Total]
    compared: int

    @property
    def faster(self) -> float | None:
        """How many times less time the prompts took through the rules."""
        before, after = self.totals
        return before.seconds / after.seconds if before.seconds and after.seconds else None

    @property
    def fewer(self) -> float | None:
        """How many times fewer prompt tokens were evaluated through the rules."""
        before, after = self.totals
        return before.evaluated / after.evaluated if before.evaluated and after.evaluated else None

    @property
    def warm(self) -> list[Row]:
        """Turns that reused what no request of their pass had sent before."""
        return [row for row in (*self.captured, *self.through) if _is_warm(row)]

    @property
    def exact(self) -> bool | None:
        """Whether all estimates were counted; None if there are none."""
        known = [
            row.assessed.expected.exact
            for row in (*self.captured, *self.through)
            if row.assessed.expected is not None
        ]
        return all(known) if known else None


def figures(captured: Sequence[Assessed], through: Sequence[Assessed]) -> Figures:
    """Return the figures of both passes, the second perhaps cut short."""
    rows = tuple(map(_row, captured)), tuple(map(_row, through))
    good = [{row.number for row in one if not row.failed} for one in rows]
    common = good[0] & good[1] if rows[1] else good[0]
    kept = [[row for row in one if row.number in common] for one in rows]
    server_time = all(row.prefill is not None for one in kept for row in one)
    totals = [_total(one, server_time=server_time) for one in kept]
    return Figures(*rows, server_time, (totals[0], totals[1]), len(common))


def _row(assessed: Assessed) -> Row:
    answer = assessed.turn.answer
    usage = answer.usage
    return Row(
        assessed, usage.prompt, usage.reused, usage.evaluated, usage.prompt_seconds, answer.first
    )


def _total(rows: Sequence[Row], *, server_time: bool) -> Total:
    def seconds_of(row: Row) -> float:
        return (row.prefill if server_time else row.first) or 0.0

    expected = [
        0 if row.assessed.expected is None else row.assessed.expected.tokens for row in rows
    ]
    return Total(
        _sum(row.prompt for row in rows),
        _sum(row.reused for row in rows),
        _sum(row.evaluated for row in rows),
        sum(expected),
        sum(map(seconds_of, rows)),
        median(map(seconds_of, rows)) if rows else None,
        max(rows, key=seconds_of, default=None),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def _is_warm(row: Row) -> bool:
    if row.reused is None or row.prompt is None:
        return False
    expected = row.assessed.expected
    explained = expected.tokens if expected is not None else 0
    return row.reused - explained > max(_WARM_TOKENS, _WARM * row.prompt)
