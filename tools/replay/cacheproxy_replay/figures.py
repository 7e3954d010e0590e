"""What the passes add up to, from what the server measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from cacheproxy.core.conversation.usage import summed
from cacheproxy_replay.estimate import Assessed


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of several turns; None where one of them lacks the figure."""

    prompt: int | None  #: tokens
    reused: int | None  #: tokens
    evaluated: int | None  #: tokens
    expected: int  #: tokens that could be reused at best
    seconds: float  #: of prefill by the server's clock, or until the first token by ours
    median: float | None  #: of these seconds; None without a turn
    slowest: Assessed | None  #: the turn with the most of them

    @property
    def share(self) -> float | None:
        """The reused part of the prompt tokens, 0 to 1."""
        return None if self.reused is None or not self.prompt else self.reused / self.prompt


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """Both passes, and their sums over the turns that both have."""

    captured: tuple[Assessed, ...]  #: the first pass, all of its turns
    through: tuple[Assessed, ...]  #: the second, perhaps cut short
    server_time: bool  #: whether seconds of the sums are the server's own prefill times, else ours
    totals: tuple[Total, Total]  #: of the first pass and the second
    compared: int  #: how many requests the sums are those of

    @property
    def both(self) -> tuple[Assessed, ...]:
        """The turns of both passes."""
        return (*self.captured, *self.through)

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
    def warm(self) -> list[int]:
        """Numbers of turns that reused what no request of their pass had sent before."""
        return sorted({one.number for one in self.both if one.is_warm})

    @property
    def exact(self) -> bool | None:
        """Whether all estimates were counted; None if there are none."""
        known = [one.expected.exact for one in self.both if one.expected is not None]
        return all(known) if known else None


def figures(captured: Sequence[Assessed], through: Sequence[Assessed]) -> ReplayFigures:
    """Return the figures of both passes, the second perhaps cut short."""
    good = [{one.number for one in turns if not one.failed} for turns in (captured, through)]
    common = good[0] & good[1] if through else good[0]
    kept = [[one for one in turns if one.number in common] for turns in (captured, through)]
    server_time = all(one.usage.prompt_seconds is not None for turns in kept for one in turns)
    before, after = (_total(turns, server_time=server_time) for turns in kept)
    return ReplayFigures(tuple(captured), tuple(through), server_time, (before, after), len(common))


def _total(turns: Sequence[Assessed], *, server_time: bool) -> Total:
    def seconds_of(one: Assessed) -> float:
        return (one.usage.prompt_seconds if server_time else one.turn.first_byte) or 0.0

    return Total(
        summed(one.usage.prompt for one in turns),
        summed(one.usage.reused for one in turns),
        summed(one.usage.evaluated for one in turns),
        sum(one.expected.tokens for one in turns if one.expected is not None),
        sum(map(seconds_of, turns)),
        median(map(seconds_of, turns)) if turns else None,
        max(turns, key=seconds_of, default=None),
    )
