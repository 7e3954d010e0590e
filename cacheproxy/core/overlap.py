"""What two texts share at their ends: a turn of a conversation is mostly the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, AnyStr, NamedTuple

if TYPE_CHECKING:
    from cacheproxy.core.document import Document

_AT_ONCE = 16 << 10
"""Characters or bytes compared at a time: each comparison copies one side. 100 KB take 7 µs; all
at once, and then half of them, and so on, took 10."""


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


class Overlap(NamedTuple):
    """How many bytes a body has in common with an earlier document, at its start and its end."""

    earlier: Document
    prefix: int
    suffix: int


def overlap(body: bytes, earlier: Document) -> Overlap:
    """Return what ``body`` shares with ``earlier``; linear, a tenth of the time of a search."""
    prefix = common_prefix(body, earlier.body)
    most = min(len(body), len(earlier.body)) - prefix
    return Overlap(earlier, prefix, common_suffix(body, earlier.body, most))
