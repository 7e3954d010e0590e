"""What an upstream charges."""

from __future__ import annotations

from typing import NamedTuple

_MILLION = 1e6


class Price(NamedTuple):
    """What a million tokens cost, in whatever currency."""

    prompt: float = 0.0  #: for tokens that are evaluated
    output: float = 0.0  #: for generated tokens
    cached: float | None = None
    """For tokens that the server has already; None: as much as for others."""

    def of_prompt(self, tokens: int, reused: int = 0) -> float:
        """Return the price of a prompt, ``reused`` of whose tokens it has."""
        reused = min(tokens, reused)
        cached = self.prompt if self.cached is None else self.cached
        return ((tokens - reused) * self.prompt + reused * cached) / _MILLION

    def of(self, tokens: int, reused: int, output: int) -> float:
        """Return the price of a prompt and its answer."""
        return self.of_prompt(tokens, reused) + output * self.output / _MILLION


FREE = Price()
