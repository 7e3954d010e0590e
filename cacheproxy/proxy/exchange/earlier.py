"""The bodies that came last, with which the next ones are read."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from cacheproxy.core.conversation.session import hint_of
from cacheproxy.core.document.compare import Overlap, overlap
from cacheproxy.core.document.document import Document
from cacheproxy.core.prompt.request import Request

_EACH = 3
"""Documents kept of one client or session: its conversation, a subagent's, a title's."""
_CHANGES = 8
"""The part of a body that may be another in the next turn of the same conversation."""
_LARGEST = 4 << 20
"""Bytes of a body that is kept: to compare 4 MiB takes the reactor a millisecond."""
_MOST_BYTES = 128 << 20
"""As estimated; see cacheproxy.observe.known."""
_COUNTED_LATER = 128 << 10
"""Bytes of a body whose cost need not be known before it is sent: it has at most 9 MiB."""


class Closest(NamedTuple):
    """What a request is known by, and what it shares with the one that it is likely to go on."""

    hint: tuple[str, ...]
    shared: Overlap | None


class Earlier:
    """Finds the document that a body is likely to go on from; the least recently used go first.

    Whatever it finds is right, for what both bodies share is compared byte by byte. It belongs
    to the reactor's thread.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._bytes_kept = 0
        self._uncounted: Document | None = None
        self._most_bytes = most_bytes
        self._known: OrderedDict[tuple[str, ...], list[Document]] = OrderedDict()

    @property
    def bytes_kept(self) -> int:
        """What all that is kept takes."""
        self._count()
        return self._bytes_kept

    def closest(self, request: Request) -> Closest:
        """Find the one that has most in common with the body: half of it or more."""
        hint = hint_of(request)
        best, most = None, -1
        for document in self._known.get(hint, ()):
            found = overlap(request.body, document)
            common = found.prefix + found.suffix
            if common > most:
                best, most = found, common
            if _goes_on(found):
                break
        return Closest(hint, best if most * 2 > len(request.body) else None)

    def keep(self, request: Request, closest: Closest) -> None:
        """Keep the document of ``request``, in place of the one that it goes on from."""
        request.literals.settle()
        document = request.document if request.is_read else None
        if document is None or len(document.body) > _LARGEST:
            return
        self._count()  # the one before, which its verdict has counted by now
        hint, shared = closest
        known = self._known.pop(hint, [])
        if shared is not None and _goes_on(shared):
            self._drop(known, shared.earlier)
        elif len(known) == _EACH:
            self._drop(known, known[-1])
        known.insert(0, document)
        self._known[hint] = known
        self._uncounted = document
        if len(document.body) > _COUNTED_LATER:
            self._count()

    def _count(self) -> None:
        """Count the document that was kept last; let the least recently used go if need be."""
        if self._uncounted is not None:
            self._bytes_kept += self._uncounted.cost
            self._uncounted = None
        while self._bytes_kept > self._most_bytes:
            _, gone = self._known.popitem(last=False)
            self._bytes_kept -= sum(document.cost for document in gone)

    def _drop(self, known: list[Document], document: Document) -> None:
        if document in known:  # another turn may have taken its place meanwhile
            known.remove(document)
            self._bytes_kept -= document.cost


def _goes_on(found: Overlap) -> bool:
    """Whether nearly all of the earlier body is still there. Two agents may share their tools."""
    size = len(found.earlier.body)
    return found.prefix + found.suffix > size - size // _CHANGES
