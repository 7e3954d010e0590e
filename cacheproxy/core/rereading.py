"""Reads a JSON object of which much is known from an earlier one.

Of what both have at their beginning and their end, values and places are taken over, and only
what is new between is scanned.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from cacheproxy.core import jsonreader
from cacheproxy.core.container import Container
from cacheproxy.core.jsonreader import Join, Reader
from cacheproxy.core.overlap import Overlap


def read_on(body: bytes, shared: Overlap) -> tuple[int, Container, int]:
    """Return where the object stands, the object, and how many bytes of ``body`` were scanned.

    Raises one of jsonreader.FAULTS where the body is no JSON object, or is built too differently.
    """
    old, start, prefix = shared.earlier.root, shared.earlier.start, shared.prefix
    if prefix <= start:
        raise ValueError("nothing is known of its beginning")
    count = _settled(old.ends, prefix - start, body[prefix - 1])
    root = Container(old, count, is_object=True)
    at = start + (root.ends[-1] if count else 1)
    begun = old.inner[count] if count < len(old.inner) else None
    opening = start + old.value_starts[count] if begun is not None else 0
    if begun is not None and opening < prefix:
        known = _settled(begun.ends, prefix - opening, body[prefix - 1])
        begun = Container(begun, known, is_object=begun.keys is not None)
        at = opening + (begun.ends[-1] if known else 1)
    else:
        begun = None
    join = _join(body, shared)
    end = len(body) if join is None else join.at
    reader = Reader(
        body[at : end + 1], jsonreader.MOST_ENTRIES, join and join._replace(at=end - at)
    )
    if begun is not None:
        inner = reader.read(opening - at, begun, is_root=False)
        root.take(old, slice(count, count + 1), 0)
        root.values[-1], root.inner[-1] = inner.value, inner
        root.ends[-1] = root.value_starts[-1] + inner.length
    root = reader.read(start - at, root, is_root=True)
    if not reader.has_joined:
        reader.end(start - at + root.length)
    if (
        len(root.values) + sum(len(each.values) for each in root.inner if each)
        > jsonreader.MOST_ENTRIES
    ):
        raise ValueError("too many members and elements")
    return start, root, end - at


def _settled(ends: list[int], length: int, last: int) -> int:
    """Return how many entries end within ``length`` bytes, the ``last`` of which is given.

    A number that ends there may yet go on: 12 as 123.
    """
    count = bisect_right(ends, length)
    return count - 1 if count and ends[count - 1] == length and last not in b'"]}' else count


def _join(body: bytes, shared: Overlap) -> Join | None:
    """Return the first entry of the earlier document that lies in what both end with."""
    earlier, _, suffix = shared
    root, start = earlier.root, earlier.start
    shift = len(body) - len(earlier.body)
    begins = len(earlier.body) - suffix
    member = bisect_left(root.starts, begins - start)
    inner = root.inner[member - 1] if member else None
    if inner is not None:
        opening = start + root.value_starts[member - 1]
        number = bisect_left(inner.starts, begins - opening)
        if number < len(inner.starts):
            return Join(opening + inner.starts[number] + shift, root, member - 1, number)
    if member < len(root.starts):
        return Join(start + root.starts[member] + shift, root, member)
    return None
