"""How much is measured: rounds, requests, seconds; the short run and the full one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    first_rounds: int
    first_requests: dict[str, int]
    """Requests of each body in one round."""
    first_seconds: float
    """Beyond, a slow peer sends fewer of them."""
    rate_rounds: int
    rate_seconds: float
    stream_rounds: int
    stream_seconds: float
    flood_seconds: float
    growth_rounds: int
    growth_requests: int
    settle: float = 0.1
    """Seconds after a block in which what a proxy does afterwards still counts."""


FULL = Plan(
    first_rounds=10,
    first_requests={"2 KB": 100, "80 KB": 100, "130 KB": 60, "500 KB": 30, "2 MB": 10},
    first_seconds=1.0,
    rate_rounds=3,
    rate_seconds=3,
    stream_rounds=3,
    stream_seconds=3,
    flood_seconds=1.5,
    growth_rounds=5,
    growth_requests=20,
)
QUICK = Plan(
    first_rounds=4,
    first_requests={"2 KB": 50, "80 KB": 60, "130 KB": 30, "500 KB": 20, "2 MB": 6},
    first_seconds=0.5,
    rate_rounds=1,
    rate_seconds=1,
    stream_rounds=1,
    stream_seconds=1,
    flood_seconds=1,
    growth_rounds=1,
    growth_requests=8,
)
