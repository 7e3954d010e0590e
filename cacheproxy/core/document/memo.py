"""Parsed values of earlier bodies, found again by their bytes.

An agent sends its whole conversation each time, but each message is read only once. An array in a
new body is compared with arrays that begin alike; the rest of it is looked up value by value, by
their first bytes, and compared as a whole. So a turn costs only its new values, wherever the others
have moved.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from threading import Lock
from typing import Any, TypeVar
from weakref import ref

from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.document.spans import Container, Item, SpelledValue
from cacheproxy.core.document.words import Words

_MOST_ALIKE = 16
"""Values with the same first bytes at most, to compare a new one with."""
_MOST_CONVERSATIONS = 256
"""Arrays with the same first bytes at most: conversations of one client."""
_CHANGES = 8
"""Fraction (1/8) of an array that may change for it to replace the conversation's array before."""
_FIRSTS = 4
"""Last first elements of an array that are stored: one that comes twice is no counter. A client's
body and the one that rules make of it take turns."""
_MOST_READ = 64
_MOST_BYTES_READ = 4 << 20
"""Requests that stay parsed at most, and bytes of their bodies: others share most of the values."""
_SPELLED = attrgetter("spelled")
_Part = TypeVar("_Part", bound=SpelledValue | Container)


class Memo:
    """Parsed members of bodies, up to ``most_bytes``; the least recently found are dropped first.

    A value that several arrays have counts once, and is found as long as one of them is stored.
    Whatever is found is right, since it is compared byte by byte. Threads may share a memo: a race
    loses no more than an entry. ``words``: texts to search for in a request without a plan's own.
    ``bytes_stored``: bytes of all that is stored, roughly. ``items``: values, those in arrays
    included, by their first ``head`` bytes.
    """

    head = 128
    """Number of first bytes by which a value is found. A shorter value is parsed as fast as found,
    and values that change each turn (a counter in the system text) would fill the memo."""

    def __init__(self, most_bytes: int = sys.maxsize) -> None:
        self.words = Words()
        self.bytes_stored = 0
        self.most_bytes = most_bytes
        self._values: OrderedDict[Item, None] = OrderedDict()
        self.items: dict[bytes, tuple[SpelledValue, ...]] = {}
        self._arrays: dict[bytes, tuple[Container, ...]] = {}
        self._ends: dict[bytes, Container] = {}
        self._documents: dict[bytes, ref[Any]] = {}
        self._read: deque[tuple[Callable[[], Any], int]] = deque()
        self._bytes_read = 0
        self._lock = Lock()

    def keeps_read(self, request: Callable[[], Any], size: int) -> bool:
        """Whether a request may keep its parsed body of ``size`` bytes until others have come.

        ``request``: weak reference to it, so that one without other users is freed at once; its
        ``forget`` is called if it may not. A large parsed body may take 20 times its bytes, and the
        time of the next request is not known.
        """
        if size > _MOST_BYTES_READ:
            return False
        self._read.append((request, size))
        self._bytes_read += size
        while len(self._read) > _MOST_READ or self._bytes_read > _MOST_BYTES_READ:
            gone, size = self._read.popleft()
            self._bytes_read -= size
            if (old := gone()) is not None:
                old.forget()
        return True

    def like(self, body: bytes) -> Any:
        """Return a document with the same beginning and end that is still in use, None if none.

        A client writes the members of its bodies in one order.
        """
        known = self._documents.get(_ends_of(body))
        return None if known is None else known()

    def saw(self, document: Any) -> None:
        """Add ``document``, which was read, as a weak reference."""
        if len(self._documents) >= _MOST_CONVERSATIONS:
            self._documents.clear()
        self._documents[_ends_of(document.body)] = ref(document)

    def touch(self, items: Iterable[Item]) -> None:
        """Mark ``items``, which were found without a lookup here, as recently used."""
        kept = self._values
        for item in filter(kept.__contains__, items):
            try:
                kept.move_to_end(item)
            except KeyError:  # another thread dropped it
                continue

    def item(self, body: bytes, at: int) -> SpelledValue | None:
        """Return the value at ``at``, a string, array or object, None if it is not known."""
        for known in self.items.get(body[at : at + self.head], ()):
            if body.startswith(known.spelled, at):
                return known
        return None

    def array(self, body: bytes, at: int) -> tuple[Container | None, int]:
        """Return the array with most bytes in common with the one at ``at``, and their number."""
        best, most = None, 0
        head = self.head
        alike = self._arrays.get(body[at : at + head], ())
        for known in alike:  # the same array, or one with more behind it
            most = known.length - 1
            end = most - head + 1  # compared first: all may begin with one long system text
            if not body.startswith(known.spelled[end:most], at + end):
                continue
            if body.startswith(known.spelled[:most], at):
                best = known
                most += len(known.spelled) > most and body.startswith(b"]", at + most)
                break
        else:
            most = 0
            for known in alike[:_MOST_ALIKE]:
                # As a rule, all but its last value are still there.
                guess = known.ends[-2] if len(known.ends) > 1 else 0
                length = common_prefix(body, known.spelled, at, guess)
                if length > most:
                    best, most = known, length
        if best is not None:
            try:  # suppress() would be three calls
                self._values.move_to_end(best)
            except KeyError:
                return best, most  # another thread dropped it
        return best, most

    def keep(self, new: Item, before: Container | None = None) -> None:
        """Store ``new``; an array replaces ``before`` if it has nearly all of its values."""
        head, renewed = self.head, None
        array = new if isinstance(new, Container) else None
        if array is not None and array.length < head:  # it would never be found
            return
        with self._lock:
            kept = self._values
            if new not in kept:
                items: Sequence[Any] = (new,) if array is None else array.items
                if (
                    array is not None
                    and before is not None
                    and before in kept
                    # Nearly all of it is still there.
                    and array.shared > before.length - before.length // _CHANGES
                ):
                    del kept[before]
                    self._uncount(before, array.before[1])
                    items = items[array.before[1] :]
                elif array is not None:
                    renewed = self._renewed(array)
                    if renewed is not None:
                        first, lately = array.items[0].spelled, renewed.notes.get("firsts", ())
                        renewed.notes["firsts"] = (*lately[1 - _FIRSTS :], first)
                        if first not in lately:
                            kept.move_to_end(renewed)
                            return
                for item in items:
                    item.holders += 1
                    if item.holders == 1:
                        self.bytes_stored += item.cost
                        if len(item.spelled) >= head:
                            key = item.spelled[:head]
                            self.items[key] = (item, *self.items.get(key, ())[: _MOST_ALIKE - 1])
                if array is not None:
                    self.bytes_stored += len(array.spelled)
                    key = bytes(array.spelled[:head])
                    alike = self._arrays.get(key, ())
                    self._arrays[key] = (array, *alike[: _MOST_CONVERSATIONS - 1])
                if array is not None and renewed is not None:
                    del kept[renewed]
                    self._uncount(renewed)
                    self._ends[bytes(array.spelled[-head:])] = array
                kept[new] = None
            else:
                kept.move_to_end(new)
            while self.bytes_stored > self.most_bytes:
                # In one call, since array() moves arrays without the lock.
                self._uncount(kept.popitem(last=False)[0])

    def _renewed(self, new: Container) -> Container | None:
        """Return the stored array that equals ``new`` but for the first element, None if none is.

        If that element is a counter, it would fill the memo with arrays that never come again.
        """
        if len(new.items) < 2:
            return None
        key = bytes(new.spelled[-self.head :])
        known = self._ends.get(key)
        if known is not None and known in self._values:
            ours, theirs = map(_SPELLED, new.items[1:]), map(_SPELLED, known.items[1:])
            if [*ours] == [*theirs]:
                return known
        self._ends[key] = new
        return None

    def _uncount(self, gone: Item, taken_over: int = 0) -> None:
        """Remove ``gone`` from counts and lookups, but for its first ``taken_over`` items."""
        head = self.head
        for item in (gone,) if isinstance(gone, SpelledValue) else gone.items[taken_over:]:
            item.holders -= 1
            if not item.holders:
                self.bytes_stored -= item.cost
                if len(item.spelled) >= head:
                    _remove(self.items, item, head)
        if isinstance(gone, Container):
            self.bytes_stored -= len(gone.spelled)
            _remove(self._arrays, gone, head)
            key = bytes(gone.spelled[-head:])
            if self._ends.get(key) is gone:
                del self._ends[key]


def _ends_of(body: bytes) -> bytes:
    return body[:32] + body[-32:]


def _remove(found: dict[bytes, tuple[_Part, ...]], gone: _Part, head: int) -> None:
    """Remove ``gone`` from the lookup table ``found``."""
    key = bytes(gone.spelled[:head])
    alike = found.pop(key, ())
    if alike and alike != (gone,):  # it is not there any more, or there are others
        found[key] = tuple([one for one in alike if one is not gone])
