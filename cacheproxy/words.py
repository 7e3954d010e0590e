"""Numbers as people read them."""

from __future__ import annotations

UNKNOWN = "?"
TIMES = "\N{MULTIPLICATION SIGN}"


def count(number: int | None) -> str:
    """Return a number of tokens, or that it is not known."""
    return UNKNOWN if number is None else f"{number:,}"


def share(part: float | None) -> str:
    """Return a part of a whole, 0 to 1, in per cent."""
    return UNKNOWN if part is None else f"{part:.1%}"


def seconds(number: float | None) -> str:
    """Return a time in the unit it is spoken of."""
    if number is None:
        return UNKNOWN
    if number < 9.995:
        return f"{number:.2f} s"
    if number < 59.95:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    return f"{minutes} min {rest:02d} s"


def times(ratio: float) -> str:
    """Return how many times as much something is."""
    return f"{ratio:.1f}{TIMES}" if ratio < 9.95 else f"{ratio:.0f}{TIMES}"


def counted(number: int, noun: str) -> str:
    """Return ``1 request``, ``2 requests``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
