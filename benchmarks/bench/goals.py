"""What is to be reached, each as a ratio or a limit within one interleaved run."""

from __future__ import annotations

from dataclasses import dataclass

from bench.bodies import CHAT
from bench.figures import Figures
from bench.rules import BAR, FIND


@dataclass(frozen=True)
class Goal:
    """``figure`` of ``group`` is to be at most (or at least) ``limit``, or that times ``other``'s.

    ``plus`` is added to the other's figure.
    """

    text: str
    group: str
    figure: str
    limit: float
    other: str = ""
    plus: float = 0.0
    at_least: bool = False

    def measured(self, figures: Figures, peer: str) -> float | None:
        """The ratio to ``other``; the figure itself without one, or with something added."""
        if self.other and not self.plus:
            return figures.ratio(self.group, self.figure, peer, self.other)
        return figures.get(self.group, self.figure, peer)

    def bar(self, figures: Figures) -> float | None:
        if not self.plus:
            return self.limit
        base = figures.get(self.group, self.figure, self.other)
        return None if base is None else base * self.limit + self.plus

    def met(self, value: float, bar: float) -> bool:
        return value >= bar if self.at_least else value <= bar


GOALS = (
    Goal("first byte 80 KB, of bun's", "ttfb", "80 KB", 0.5, "bun"),
    Goal("first byte 80 KB, of nginx's", "ttfb", "80 KB", 3.0, "nginx"),
    Goal("first byte 500 KB, of nginx's", "ttfb", "500 KB", 2.0, "nginx"),
    Goal("CPU per request 80 KB, of bun's", "cpu", "80 KB", 0.5, "bun"),
    Goal("requests/s at 32, of bun's", "rps", "32", 1.7, "bun", at_least=True),
    Goal("chunks/s at 32, of aiohttp's", "chunks", "32", 1.0, "aiohttp", at_least=True),
    *(
        Goal(f"ms p99 a chunk at {n}", "streams", f"p99 {n}", 1.0, "nginx", plus=1.0)
        for n in (1, 32, 200)
    ),
    Goal("ms, the latest chunk at 200", "streams", "latest 200", 20.0),
    Goal("KB per open stream", "memory", "KB/stream", 60.0),
    Goal("rules, nothing to edit, of one find", "rules", CHAT, 3.0, FIND),
    Goal("rules, one edit, of 3 finds and a scan", "rules", "80 KB", 1.0, BAR),
)
