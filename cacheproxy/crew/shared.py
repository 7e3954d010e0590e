"""What the turns of a session need of one another, whichever worker they come to: kept here."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from cacheproxy.core.prompt.request import Request
from cacheproxy.crew.messages import Lane

_MOST_LANES = 10_000
_MOST_BYTES = 64 << 20
_EACH = 1000
"""Bytes that a request is reckoned at besides its body."""


class Turns:
    """How many turns each lane has had; the least recently used go first."""

    def __init__(self, most: int = _MOST_LANES) -> None:
        self._most = most
        self._counts: OrderedDict[Lane, int] = OrderedDict()

    def next(self, lane: Lane) -> int:
        """Count one more; return which turn it is, from 1."""
        count = self._counts.pop(lane, 0) + 1
        self._counts[lane] = count
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return count


@dataclass(frozen=True, slots=True)
class Known:
    """The last request of a lane; ``version`` names it among all there were, "" for none."""

    version: str = ""
    request: Request | None = None


class LastRequests:
    """The last request of each lane, by count and bytes; the least recently used go first."""

    def __init__(self, most: int = _MOST_LANES, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._known: OrderedDict[Lane, Known] = OrderedDict()
        self._bytes = 0

    def of(self, lane: Lane) -> Known:
        """Return what is known of ``lane``."""
        known = self._known.get(lane)
        if known is None:
            return Known()
        self._known.move_to_end(lane)
        return known

    def put(self, lane: Lane, known: Known) -> None:
        """Know this of ``lane`` from now on."""
        self.forget(lane)
        self._known[lane] = known
        self._bytes += _size(known)
        while len(self._known) > 1 and (
            len(self._known) > self._most or self._bytes > self._most_bytes
        ):
            self.forget(next(iter(self._known)))

    def forget(self, lane: Lane) -> None:
        """Know nothing of ``lane``."""
        known = self._known.pop(lane, None)
        if known is not None:
            self._bytes -= _size(known)


def _size(known: Known) -> int:
    return _EACH + (len(known.request.body) if known.request is not None else 0)
