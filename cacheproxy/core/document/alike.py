"""Whether two JSON values mean the same, however they are spelled."""

from __future__ import annotations

from typing import Any

LARGEST = 1 << 53
"""Integers from here on mean what the nearest double means (RFC 8259, section 6)."""


def alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: numbers as doubles, objects in any order.

    What is nested too deeply to be compared counts as different.
    """
    try:
        return _alike(one, other)
    except RecursionError:
        return False


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int) and isinstance(other, int) and min(abs(one), abs(other)) >= LARGEST:
        return _double(one) == _double(other)
    return bool(one == other)


def _double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
