"""The large bodies in flight: how much of them there may be at a time, and who waits for room.

A body is in flight until its answer is over or its client has left: until then it may be sent
again, and the observers look at it. Small ones are not counted, and never wait.
"""

from __future__ import annotations

from collections.abc import Callable

LARGE = 1 << 20
"""Bytes of a body from which it needs room."""


class Bodies:
    """The bodies in flight of all connections, at most ``most`` bytes; first come, first served.

    One that is larger than that goes alone. Who has a place gets more without waiting, since all
    might wait for each other: then it is more than ``most``, and nobody is let in meanwhile.
    """

    def __init__(self, most: int) -> None:
        self.taken = 0  #: bytes
        self._most = most
        self._waiting: dict[Reservation, Callable[[], object]] = {}

    def adopt(self, most: int) -> None:
        """Let there be so many bytes from now on, also for those that wait."""
        self._most = most
        self._let_in()

    def place(self, size: int, go_on: Callable[[], object]) -> Reservation:
        """Return a place for ``size`` bytes; if it must wait, ``go_on`` is called once it is there.

        Whoever is called must not read at once: it comes from wherever another place is left.
        """
        place = Reservation(self, size)
        self._waiting[place] = go_on
        if len(self._waiting) == 1 and self._fits(size):
            self._enter(place)
        return place

    def leave(self, place: Reservation) -> None:
        """Give room to others. For ``place``, which waits or is there."""
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
    """What one body takes of ``bodies``: ``size`` bytes, while it does not ``wait``."""

    __slots__ = ("_bodies", "size", "waits")

    def __init__(self, bodies: Bodies, size: int) -> None:
        self.size = size
        self.waits = True
        self._bodies = bodies

    def grow(self, size: int) -> None:
        """Take ``size`` bytes from now on, if that is more; at once, since it is there already."""
        if size > self.size:
            self._bodies.taken += size - self.size
            self.size = size

    def leave(self) -> None:
        """Take nothing any more, and wait no longer."""
        self._bodies.leave(self)
