"""The large request bodies in flight: their total size is limited, and further ones wait for room.

A body is in flight until its answer is over or its client has left: until then it may be sent
again, and the observers may read it. Small ones are not counted, and never wait.
"""

from __future__ import annotations

from collections.abc import Callable

LARGE = 1 << 20
"""Bytes above which a body needs room."""


class Bodies:
    """The bodies in flight of all connections, ``most`` bytes in all; first come, first served.

    A body that is larger than ``most`` goes alone. A body that has a place may grow without
    waiting, or all might wait for each other: the total is then above ``most``, and no further body
    is let in meanwhile.
    """

    def __init__(self, most: int) -> None:
        self.taken = 0  #: bytes in flight
        self._most = most
        self._waiting: dict[Reservation, Callable[[], object]] = {}

    def adopt(self, most: int) -> None:
        """Change the limit to ``most`` bytes, also for the bodies that wait."""
        self._most = most
        self._let_in()

    def place(self, size: int, go_on: Callable[[], object]) -> Reservation:
        """Return a place for ``size`` bytes; if it has to wait, ``go_on`` is called when it is in.

        ``go_on`` must not read at once: it is called from within another request's end.
        """
        place = Reservation(self, size)
        self._waiting[place] = go_on
        if len(self._waiting) == 1 and self._fits(size):
            self._enter(place)
        return place

    def leave(self, place: Reservation) -> None:
        """Remove ``place``, which waits or is in; let others in. Called by the place."""
        if self._waiting.pop(place, None) is None:
            self.taken -= place.size
        self._let_in()

    def _fits(self, size: int) -> bool:
        return not self.taken or self.taken + size <= self._most

    def _enter(self, place: Reservation) -> Callable[[], object]:
        self.taken += place.size
        place.waits = False
        return self._waiting.pop(place)

    def _let_in(self) -> None:
        while self._waiting and self._fits((first := next(iter(self._waiting))).size):
            self._enter(first)()


class Reservation:
    """One body's place in ``bodies``: ``size`` bytes; ``waits``: whether it has no room yet."""

    __slots__ = ("_bodies", "size", "waits")

    def __init__(self, bodies: Bodies, size: int) -> None:
        self.size = size
        self.waits = True
        self._bodies = bodies

    def grow(self, size: int) -> None:
        """Grow to ``size`` bytes, if that is more; without waiting, since the body is in."""
        if size > self.size:
            self._bodies.taken += size - self.size
            self.size = size

    def leave(self) -> None:
        """Free the room, or wait no longer for it."""
        self._bodies.leave(self)
