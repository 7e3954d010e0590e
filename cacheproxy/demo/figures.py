"""What the passes add up to: totals and ratios, each from what the server measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheproxy.demo.client import Cost
    from cacheproxy.demo.run import Passes

COLD = 0.1
"""Less than this part of a prompt reused is what every server reuses of any prompt."""


@dataclass(frozen=True, slots=True)
class Row:
    """One turn, or the sum of several; None where the server did not say.

    ``seconds``: prompt time, as ``Figures.server_time`` tells; ``wall``: until the whole answer.
    """

    prompt: int | None
    reused: int | None
    evaluated: int | None
    seconds: float
    wall: float

    @property
    def share(self) -> float | None:
        """The reused part of the prompt tokens, 0 to 1."""
        if self.reused is None or not self.prompt:
            return None
        return self.reused / self.prompt

    def __add__(self, other: Row) -> Row:
        return Row(
            _sum(self.prompt, other.prompt),
            _sum(self.reused, other.reused),
            _sum(self.evaluated, other.evaluated),
            self.seconds + other.seconds,
            self.wall + other.wall,
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """Both passes, turn by turn.

    ``server_time``: the seconds are the server's own prompt time; else the wall clock's, from
    the request to the whole answer.
    """

    direct: tuple[Row, ...]
    through: tuple[Row, ...]
    server_time: bool

    @property
    def faster(self) -> float | None:
        """How many times less time the prompts took through the proxy."""
        return _ratio(total(self.direct).seconds, total(self.through).seconds)

    @property
    def faster_later(self) -> float | None:
        """The same without the first turn, which is cold in both passes."""
        return _ratio(total(self.direct[1:]).seconds, total(self.through[1:]).seconds)

    @property
    def fewer(self) -> float | None:
        """How many times fewer prompt tokens were evaluated through the proxy."""
        return _ratio(total(self.direct).evaluated, total(self.through).evaluated)

    @property
    def warm(self) -> bool:
        """Whether a first turn reused what it should not have found."""
        return any((rows[0].share or 0) > COLD for rows in (self.direct, self.through))

    @property
    def idle(self) -> bool:
        """Whether the later turns reused next to nothing even through the proxy."""
        share = total(self.through[1:]).share
        return share is not None and share < COLD


def figures(passes: Passes) -> Figures:
    """Return the figures of ``passes``; times are of one kind throughout."""
    costs = (*passes.direct, *passes.through)
    server_time = all(cost.usage.prompt_seconds is not None for cost in costs)
    return Figures(
        tuple(_row(cost, server_time=server_time) for cost in passes.direct),
        tuple(_row(cost, server_time=server_time) for cost in passes.through),
        server_time,
    )


def total(rows: Iterable[Row]) -> Row:
    """Return the sum of ``rows``; a figure that one of them lacks is None."""
    return sum(rows, start=Row(0, 0, 0, 0.0, 0.0))


def _row(cost: Cost, *, server_time: bool) -> Row:
    usage = cost.usage
    seconds = usage.prompt_seconds if server_time else cost.wall
    return Row(usage.prompt, usage.reused, usage.evaluated, seconds or 0.0, cost.wall)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _ratio(before: float | None, after: float | None) -> float | None:
    return before / after if before and after else None
