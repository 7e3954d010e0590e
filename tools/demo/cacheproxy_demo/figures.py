"""What a pass adds up to, from what the server measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

from cacheproxy.core.conversation.usage import summed
from cacheproxy_demo.client import Cost


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """The sums of one pass or of several; None where the server did not say."""

    requests: int  #: how many
    refused: int  #: how many of them
    prompt: int | None  #: tokens
    reused: int | None  #: tokens
    evaluated: int | None  #: tokens
    possible: int | None
    """Tokens that could be reused: in each turn the whole prompt of the turn before."""
    found: int | None  #: those of them that were
    seconds: float  #: until the whole answers

    @property
    def share(self) -> float | None:
        """The part of what could be reused that was, 0 to 1."""
        if self.found is None or not self.possible:
            return None
        return self.found / self.possible

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"share": self.share}


def figures(costs: Sequence[Cost]) -> DemoFigures:
    """Return the sums of one pass."""
    usages = [cost.usage for cost in costs]
    pairs = [(before.prompt, after.reused) for before, after in pairwise(usages)]
    return DemoFigures(
        requests=len(costs),
        refused=sum(cost.refused is not None for cost in costs),
        prompt=summed(usage.prompt for usage in usages),
        reused=summed(usage.reused for usage in usages),
        evaluated=summed(usage.evaluated for usage in usages),
        possible=summed(prompt for prompt, _ in pairs),
        found=summed(None if None in pair else min(pair) for pair in pairs),  # type: ignore[type-var]
        seconds=sum(cost.wall for cost in costs),
    )


def total(passes: Iterable[DemoFigures]) -> DemoFigures:
    """Return the sums of several passes."""
    rows = list(passes)
    return DemoFigures(
        *(summed(getattr(row, each.name) for row in rows) for each in fields(DemoFigures))
    )
