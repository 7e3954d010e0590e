"""The common beginning and the common end of two texts."""

from __future__ import annotations

from typing import AnyStr

_AT_ONCE = 16 << 10
"""Characters or bytes compared at a time, a power of 2: each comparison copies one side."""


def common_prefix(one: AnyStr, other: AnyStr) -> int:
    """Return how many characters or bytes ``one`` and ``other`` share from the start."""
    low, high = 0, min(len(one), len(other))
    while low < high and one.startswith(other[low : low + _AT_ONCE], low):
        low += _AT_ONCE
    low, high = min(low, high), min(high, low + _AT_ONCE)
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(one: AnyStr, other: AnyStr, most: int) -> int:
    """Return how many, up to ``most``, ``one`` and ``other`` share at the end."""
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


def shared_from(body: bytes, at: int, text: memoryview) -> int:
    """Return how many bytes of ``text`` stand at ``at`` in ``body``; nothing is copied."""
    length, step = 0, _AT_ONCE
    while length < len(text) and body.startswith(text[length : length + step], at + length):
        length += step
        step *= 2
    while step := step >> 1:
        if length < len(text) and body.startswith(text[length : length + step], at + length):
            length += step
    return min(length, len(text))
