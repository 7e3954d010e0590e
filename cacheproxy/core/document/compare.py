"""The common beginning and the common end of two texts."""

from __future__ import annotations

import json
from typing import Any, AnyStr

_AT_ONCE = 16 << 10
"""Characters or bytes compared at a time, a power of 2: each comparison copies one side."""
_FEW = 256
"""Bytes compared as one number, in which the first differing bit is found at once."""
LARGEST = 1 << 53
"""Integers from here on are equal if their nearest doubles are (RFC 8259, section 6)."""


def common_prefix(one: AnyStr, other: Any, start: int = 0, guess: int = 0) -> int:
    """Return how many characters or bytes ``other`` shares with ``one`` from ``start`` on.

    ``other``: of the same type, or a view of bytes. ``guess``: the number that is tried first.
    """
    low, high = 0, min(len(one) - start, len(other))
    if guess and one.startswith(other[:guess], start):
        low = guess
    while low < high and one.startswith(other[low : low + _AT_ONCE], start + low):
        low += _AT_ONCE
    low, high = min(low, high), min(high, low + _AT_ONCE)
    while high - low > _FEW:
        middle = (low + high) // 2
        if one.startswith(other[low:middle], start + low):
            low = middle
        else:
            high = middle
    ours, theirs = one[start + low : start + high], other[low:high]
    if isinstance(ours, str):
        wide = ours.encode("utf-32-le", "surrogatepass")
        at = _first_unlike(wide, theirs.encode("utf-32-le", "surrogatepass"))
        return min(high, low + at // 4)
    return min(high, low + _first_unlike(ours, theirs))


def _first_unlike(ours: bytes, theirs: bytes) -> int:
    """Return the index of the first byte that differs, ``_FEW`` or more if none does."""
    differ = int.from_bytes(ours, "little") ^ int.from_bytes(theirs, "little")
    return (differ & -differ).bit_length() - 1 >> 3 if differ else 4 * _FEW


def common_suffix(one: AnyStr, other: AnyStr, most: int) -> int:
    """Return how many last characters or bytes, up to ``most``, ``one`` and ``other`` share."""
    low, high = 0, most
    ours, theirs = len(one), len(other)
    while low + _AT_ONCE <= high and one.endswith(
        other[theirs - low - _AT_ONCE : theirs - low], 0, ours - low
    ):
        low += _AT_ONCE
    high = min(high, low + _AT_ONCE)
    while low < high:
        middle = (low + high + 1) // 2
        if one.endswith(other[theirs - middle : theirs - low], 0, ours - low):
            low = middle
        else:
            high = middle - 1
    return low


def alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: numbers as doubles, objects in any order.

    Values nested too deeply to be compared count as different.
    """
    try:
        return _alike(one, other)
    except RecursionError:
        return False


def means_same(one: str, other: str) -> bool:
    """Whether the values of two JSON texts are ``alike``; False if one is no JSON."""
    try:
        return alike(json.loads(one), json.loads(other))
    except (ValueError, RecursionError):
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
