"""Parsed values of earlier bodies, found again by their bytes.

An agent sends its whole conversation each time, but each message is read only once. A value in a
new body is looked up by its first bytes and compared as a whole; an array is compared with arrays
that begin alike. So a turn costs only what is new in it, wherever the rest has moved.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from threading import Lock
from typing import Any

from cacheproxy.core.document.compare import shared_from
from cacheproxy.core.document.spans import Container, Item
from cacheproxy.core.document.words import Words

_HEAD = 128
"""Bytes by which a value is found."""
_MOST_ALIKE = 16
"""Values that are kept of those with the same first bytes: conversations of one client."""
_CHANGES = 8
"""The part of an array that may be another where it is the one that a conversation had before."""
_MOST_BYTES = 128 << 20
"""As estimated, which is twice what it takes."""


class Memo:
    """Keeps items and arrays up to ``most_bytes``; the least recently found go first.

    Whatever it finds is right, for it is compared byte by byte. Threads may share it: a race
    loses no more than an entry. ``words``: the texts that rules look for. ``bytes_kept``: what
    all that is kept takes, roughly.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self.words = Words()
        self.bytes_kept = 0
        self._most_bytes = most_bytes
        self._known: OrderedDict[bytes, tuple[Any, ...]] = OrderedDict()
        self._lock = Lock()

    def item(self, body: bytes, at: int) -> Item | None:
        """Return the value at ``at``, which begins with a quote or bracket, if it is known."""
        known: Item
        for known in self._find(body[at : at + _HEAD]):
            if body.startswith(known.spelled, at):
                return known
        return None

    def keep_item(self, body: bytes, at: int, item: Item) -> None:
        """Keep ``item``, which stands at ``at``."""
        self._keep(body[at : at + _HEAD], item, None)

    def array(self, body: bytes, at: int) -> tuple[Container | None, int]:
        """Return the array that has most in common with the one at ``at``, and how many bytes."""
        best, most = None, 0
        known: Container
        for known in self._find(b"a" + body[at : at + _HEAD]):
            length = shared_from(body, at, known.spelled)
            if length > most:
                best, most = known, length
                if length >= known.length - 1:  # but for the bracket
                    break
        return best, most

    def keep_array(self, body: bytes, at: int, array: Container, best: Container | None) -> None:
        """Keep ``array``, which stands at ``at``, in place of the one that it goes on from."""
        gone = best if best is not None and _goes_on(best, array.shared) else None
        self._keep(b"a" + body[at : at + _HEAD], array, gone)

    def _find(self, key: bytes) -> tuple[Any, ...]:
        found = self._known.get(key)
        if found is None:
            return ()
        with suppress(KeyError):  # another thread let go of it
            self._known.move_to_end(key)
        return found

    def _keep(self, key: bytes, new: Any, gone: Any) -> None:
        """Keep ``new`` before all others of its first bytes, without ``gone``."""
        with self._lock:
            olds = self._known.pop(key, ())
            kept = (new, *(old for old in olds if old is not gone))[:_MOST_ALIKE]
            self._known[key] = kept
            self.bytes_kept += _cost(kept) - _cost(olds)
            while self.bytes_kept > self._most_bytes:
                self.bytes_kept -= _cost(self._known.popitem(last=False)[1])


def _goes_on(known: Container, length: int) -> bool:
    """Whether nearly all of ``known``, ``length`` bytes, is still there."""
    return length > known.length - known.length // _CHANGES


def _cost(kept: tuple[Any, ...]) -> int:
    return sum(one.cost for one in kept)
