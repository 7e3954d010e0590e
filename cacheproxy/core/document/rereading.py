"""Reads a JSON object of which much is known from an earlier one.

Of what both have at their beginning and their end, values and places are taken over, and only
what is new between is scanned. After edits inside of values, only these values are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from cacheproxy.core.document import reader as jsonreader
from cacheproxy.core.document.compare import Overlap
from cacheproxy.core.document.reader import Join, Reader, value_of
from cacheproxy.core.document.spans import Change, Container


class Reread(NamedTuple):
    """Where the object stands, the object, and how many bytes of the body were scanned."""

    start: int
    root: Container
    scanned: int


class Splice(NamedTuple):
    """``new`` stands in place of the bytes from ``start`` to ``end`` of an earlier body."""

    start: int
    end: int
    new: bytes


def read_on(body: bytes, shared: Overlap) -> Reread:
    """Read ``body``, which has the ends of an earlier one.

    Raises one of jsonreader.FAULTS where the body is no JSON object, or is built too differently.
    """
    old, start, prefix = shared.earlier.root, shared.earlier.start, shared.prefix
    if prefix <= start:
        raise ValueError("nothing is known of its beginning")
    last = body[prefix - 1]
    count = _settled(old.ends, prefix - start, last)
    root = old.begun(count)
    at = start + (root.ends[-1] if count else 1)
    inner = old.inner[count] if count < len(old.inner) else None
    opening = start + old.value_starts[count] if inner is not None else prefix
    begun = None
    if inner is not None and opening < prefix:
        begun = inner.begun(_settled(inner.ends, prefix - opening, last))
        at = opening + (begun.ends[-1] if begun.ends else 1)
    join = _join(shared, len(body) - len(shared.earlier.body) - at)
    end = len(body) if join is None else at + join.at
    reader = Reader(body[at : end + 1], jsonreader.MOST_ENTRIES, join)
    if begun is not None:
        begun = reader.read(opening - at, begun, is_root=False)
        if root.keys is not None and old.keys is not None:
            root.keys.append(old.keys[count])
        root.starts.append(old.starts[count])
        root.value_starts.append(old.value_starts[count])
        root.ends.append(old.value_starts[count] + begun.length)
        root.values.append(begun.value)
        root.inner.append(begun)
    root = reader.read(start - at, root, is_root=True)
    if not reader.has_joined:
        reader.end(start - at + root.length)
    # A body of fewer bytes cannot have as many.
    if len(body) > jsonreader.MOST_ENTRIES and root.entries > jsonreader.MOST_ENTRIES:
        raise ValueError("too many members and elements")
    return Reread(start, root, end - at)


def read_spliced(
    body: bytes, start: int, root: Container, splices: tuple[Splice, ...]
) -> Reread | None:
    """Read ``body``, which is that of ``root`` (at ``start``) after ``splices``, ascending.

    None where one of them does not lie within one value of the two outermost levels. Raises one
    of jsonreader.FAULTS where what then stands there is no value.
    """
    changes: dict[int, list[Change]] = {}
    scanned = shift = done = 0
    while done < len(splices):
        at = splices[done].start
        member = bisect_right(root.value_starts, at - start) - 1
        holder, number, opening = root, member, start
        if member >= 0 and (inner := root.inner[member]) is not None:
            holder, opening = inner, start + root.value_starts[member]
            number = bisect_right(inner.value_starts, at - opening) - 1
        if number < 0 or at >= (end := opening + holder.ends[number]):
            return None
        begin = opening + holder.value_starts[number] + shift
        longer = 0
        while done < len(splices) and splices[done].start < end:
            one = splices[done]
            if one.end > end:
                return None
            longer += len(one.new) - (one.end - one.start)
            done += 1
        shift += longer
        piece = body[begin : end + shift]
        if holder is root and piece[:1] in (b"[", b"{"):
            return None  # its own container is wanted
        scanned += len(piece)
        changes.setdefault(member, []).append(Change(number, value_of(piece), longer))
    outer: list[Change] = []
    for member, its_changes in changes.items():
        old = root.inner[member]
        if old is None:
            outer += its_changes
        else:
            new = old.changed(its_changes)
            outer.append(Change(member, new.value, new.length - old.length, new))
    return Reread(start, root.changed(outer), scanned)


def _settled(ends: list[int], length: int, last: int) -> int:
    """Return how many entries end within ``length`` bytes, the ``last`` of which is given.

    A number that ends there may yet go on: 12 as 123.
    """
    count = bisect_right(ends, length)
    return count - 1 if count and ends[count - 1] == length and last not in b'"]}' else count


def _join(shared: Overlap, shift: int) -> Join | None:
    """Return the first entry of the earlier document that lies in what both end with.

    ``shift``: how many bytes farther it is from the start of what is read now.
    """
    earlier, _, suffix = shared
    root, start = earlier.root, earlier.start
    begins = len(earlier.body) - suffix
    member = bisect_left(root.starts, begins - start)
    inner = root.inner[member - 1] if member else None
    if inner is not None:
        opening = start + root.value_starts[member - 1]
        number = bisect_left(inner.starts, begins - opening)
        if number < len(inner.starts):
            return Join(opening + inner.starts[number] + shift, root, inner, member - 1, number)
    if member < len(root.starts):
        return Join(start + root.starts[member] + shift, root, None, member, 0)
    return None
