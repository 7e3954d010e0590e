"""All figures of a run, each with its rounds; what is shown is the median of the rounds."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Figures:
    """``rounds[group][figure][peer]``: one value a round. ``notes``: what went wrong, by peer."""

    rounds: dict[str, dict[str, dict[str, list[float]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    )
    notes: list[str] = field(default_factory=list)

    def add(self, group: str, figure: str, peer: str, value: float) -> None:
        self.rounds[group][figure][peer].append(value)

    def get(self, group: str, figure: str, peer: str) -> float | None:
        """The median of the rounds; None where nothing was measured."""
        values = self.rounds.get(group, {}).get(figure, {}).get(peer)
        return statistics.median(values) if values else None

    def ratio(self, group: str, figure: str, peer: str, other: str) -> float | None:
        """How many times the figure of ``other`` that of ``peer`` is.

        None where one of them is missing or the other's is not above zero.
        """
        one, two = self.get(group, figure, peer), self.get(group, figure, other)
        return None if one is None or two is None or two <= 0 else one / two

    def peers(self, group: str) -> list[str]:
        """Who has a figure in ``group``, in the order they were first measured."""
        found: dict[str, None] = {}
        for by_peer in self.rounds.get(group, {}).values():
            found.update(dict.fromkeys(by_peer))
        return list(found)

    def json(self) -> dict[str, Any]:
        return {
            "medians": {
                group: {
                    figure: {peer: statistics.median(values) for peer, values in by_peer.items()}
                    for figure, by_peer in figures.items()
                }
                for group, figures in self.rounds.items()
            },
            "rounds": self.rounds,
            "notes": self.notes,
        }
