"""The sums of a pass, over the server's own figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

from cacheproxy.core.conversation.usage import summed
from cacheproxy_demo.client import Cost


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """The sums of one pass or of several; None for figures that the server did not report."""

    requests: int  #: number of requests
    refused: int  #: number of refused requests
    prompt: int | None  #: prompt tokens
    reused: int | None  #: reused prompt tokens
    evaluated: int | None  #: evaluated prompt tokens
    possible: int | None
    """Tokens that could be reused: in each turn the whole prompt of the previous one."""
    found: int | None  #: tokens among ``possible`` that were reused
    seconds: float  #: time until the end of each answer, summed up

    @property
    def share(self) -> float | None:
        """The reused part of the tokens that could be reused, 0 to 1."""
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
