"""What an upstream charges."""

from __future__ import annotations

from typing import NamedTuple

_MILLION = 1e6


class Price(NamedTuple):
    """For a million tokens, in whatever currency; ``cached`` of those that it has already.

    ``cached`` None: as much as for others.
    """

    prompt: float = 0.0
    output: float = 0.0
    cached: float | None = None

    def of_prompt(self, tokens: int, reused: int = 0) -> float:
        """Return the price of a prompt, ``reused`` of whose tokens it has."""
        reused = min(tokens, reused)
        cached = self.prompt if self.cached is None else self.cached
        return ((tokens - reused) * self.prompt + reused * cached) / _MILLION

    def of(self, tokens: int, reused: int, output: int) -> float:
        """Return the price of a prompt and its answer."""
        return self.of_prompt(tokens, reused) + output * self.output / _MILLION


FREE = Price()
