"""Parsed values of earlier bodies, found again by their bytes.

An agent sends its whole conversation each time, but each message is read only once. An array in a
new body is compared with arrays that begin alike; what is beyond that is looked up value by value,
by its first bytes, and compared as a whole. So a turn costs only what is new in it, wherever the
rest has moved.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from threading import Lock
from typing import Protocol, TypeVar

from cacheproxy.core.document.compare import shared_from
from cacheproxy.core.document.spans import Container, SpelledValue
from cacheproxy.core.document.words import Words

_HEAD = 128
"""Bytes by which a value is found. A shorter one is read as fast as it is found, and what is
another each turn (a counter in the system text) would fill the memo."""
_MOST_ALIKE = 16
"""Values that are compared of those with the same first bytes."""
_MOST_CONVERSATIONS = 256
"""Arrays that are found of those with the same first bytes: conversations of one client."""
_CHANGES = 8
"""The part of an array that may be another where it is the one that a conversation had before."""
_MOST_READ = 64
_MOST_BYTES_READ = 4 << 20
"""Requests that stay read, and bytes of their bodies: nearly all of it others have as well."""
_SPELLED = attrgetter("spelled")
_Part = TypeVar("_Part", bound=SpelledValue | Container)


class Forgetful(Protocol):
    """A request, which may be read again."""

    def forget(self) -> None:
        """Let go of what it was read as."""


class Memo:
    """Keeps members of bodies up to ``most_bytes``; the least recently found go first.

    A value that several arrays have is counted once, and found as long as one of them is kept.
    Whatever is found is right, for it is compared byte by byte. Threads may share it: a race
    loses no more than an entry. ``words``: texts that are looked for
    in a request of which no plan knows more. ``bytes_kept``: what
    all that is kept takes, roughly.
    """

    def __init__(self, most_bytes: int = sys.maxsize) -> None:
        self.words = Words()
        self.bytes_kept = 0
        self.most_bytes = most_bytes
        self._kept: OrderedDict[SpelledValue | Container, None] = OrderedDict()
        self._items: dict[bytes, tuple[SpelledValue, ...]] = {}
        self._arrays: dict[bytes, tuple[Container, ...]] = {}
        self._ends: dict[bytes, Container] = {}
        self._read: deque[tuple[Callable[[], Forgetful | None], int]] = deque()
        self._bytes_read = 0
        self._lock = Lock()

    def keep_read(self, request: Callable[[], Forgetful | None], size: int) -> None:
        """Let a request keep what its body of ``size`` bytes was read as, until others have come.

        ``request`` refers to it weakly: one that is needed no more is gone at once.
        """
        self._read.append((request, size))
        self._bytes_read += size
        while len(self._read) > _MOST_READ or self._bytes_read > _MOST_BYTES_READ:
            if len(self._read) == 1:
                break
            gone, size = self._read.popleft()
            self._bytes_read -= size
            if (old := gone()) is not None:
                old.forget()

    def item(self, body: bytes, at: int) -> SpelledValue | None:
        """Return the value at ``at``, which begins with a quote or bracket, if it is known."""
        for known in self._items.get(body[at : at + _HEAD], ()):
            if body.startswith(known.spelled, at):
                return known
        return None

    def array(self, body: bytes, at: int) -> tuple[Container | None, int]:
        """Return the array that has most in common with the one at ``at``, and how many bytes."""
        best, most = None, 0
        alike = self._arrays.get(body[at : at + _HEAD], ())
        likely = [known for known in alike if _may_go_on(body, at, known)]
        for known in (*likely, *alike[:_MOST_ALIKE]):
            length = shared_from(body, at, known.spelled)
            if length > most:
                best, most = known, length
                if length >= known.length - 1:  # but for the bracket
                    break
        if best is not None:
            with suppress(KeyError):  # another thread let go of it
                self._kept.move_to_end(best)
        return best, most

    def keep_item(self, item: SpelledValue) -> None:
        """Keep the value of a member that is no array, unless it is short."""
        if len(item.spelled) >= _HEAD:
            self._keep(item)

    def keep_array(self, array: Container, best: Container | None) -> None:
        """Keep ``array``, in place of ``best``, if that is the one that it goes on from."""
        if array.length < _HEAD:  # it would never be found
            return
        # Nearly all of it is still there.
        is_before = best is not None and array.shared > best.length - best.length // _CHANGES
        self._keep(array, best if is_before else None)

    def _keep(self, new: SpelledValue | Container, gone: Container | None = None) -> None:
        with self._lock:
            if new not in self._kept:
                taken_over, renewed = 0, None
                if gone is not None and isinstance(new, Container) and gone in self._kept:
                    taken_over = new.before[1]
                    del self._kept[gone]
                    self._uncount(gone, taken_over)
                elif isinstance(new, Container):
                    renewed = self._renewed(new)
                self._take(new, taken_over)
                if renewed is not None:
                    del self._kept[renewed]
                    self._uncount(renewed)
            self._kept[new] = None
            self._kept.move_to_end(new)
            while self.bytes_kept > self.most_bytes:
                # At once: array() moves what it finds without the lock.
                self._uncount(self._kept.popitem(last=False)[0])

    def _renewed(self, new: Container) -> Container | None:
        """Return the array that is ``new`` but for the first element: a counter may stand there.

        It is another in each turn, and would fill the memo with arrays that never come again.
        """
        if len(new.items) < 2:
            return None
        key = bytes(new.spelled[-_HEAD:])
        known, self._ends[key] = self._ends.get(key), new
        if known is None or known not in self._kept:
            return None
        ours, theirs = (list(map(_SPELLED, one.items[1:])) for one in (new, known))
        return known if ours == theirs else None

    def _take(self, new: SpelledValue | Container, taken_over: int) -> None:
        """Count ``new`` and its items, but for the first ones, which have been."""
        for item in _items_of(new)[taken_over:]:
            item.holders += 1
            if item.holders == 1:
                self.bytes_kept += item.cost
                if len(item.spelled) >= _HEAD:
                    _add(self._items, item, _MOST_ALIKE)
        if isinstance(new, Container):
            self.bytes_kept += len(new.spelled)
            _add(self._arrays, new, _MOST_CONVERSATIONS)

    def _uncount(self, gone: SpelledValue | Container, taken_over: int = 0) -> None:
        """Count and find no longer what was let go of, but for the first items."""
        for item in _items_of(gone)[taken_over:]:
            item.holders -= 1
            if not item.holders:
                self.bytes_kept -= item.cost
                _remove(self._items, item)
        if isinstance(gone, Container):
            self.bytes_kept -= len(gone.spelled)
            _remove(self._arrays, gone)
            key = bytes(gone.spelled[-_HEAD:])
            if self._ends.get(key) is gone:
                del self._ends[key]


def _items_of(kept: SpelledValue | Container) -> Sequence[SpelledValue]:
    return kept.items if isinstance(kept, Container) else (kept,)


def _add(found: dict[bytes, tuple[_Part, ...]], new: _Part, most: int) -> None:
    """Let ``new`` be found before the others of its first bytes, and with it so many in all."""
    key = bytes(new.spelled[:_HEAD])
    found[key] = (new, *found.get(key, ())[: most - 1])


def _remove(found: dict[bytes, tuple[_Part, ...]], gone: _Part) -> None:
    key = bytes(gone.spelled[:_HEAD])
    left = tuple(one for one in found.pop(key, ()) if one is not gone)
    if left:
        found[key] = left


def _may_go_on(body: bytes, at: int, known: Container) -> bool:
    """Whether the end of ``known``, but for the bracket, is in the array at ``at`` as well."""
    last = max(0, known.length - _HEAD)
    return body.startswith(known.spelled[last : known.length - 1], at + last)
