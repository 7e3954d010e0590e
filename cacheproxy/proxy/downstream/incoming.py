"""The bytes that have come on a connection and are not answered yet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from cacheproxy.core.http1.request_head import RequestHead
from cacheproxy.core.http1.request_reader import RequestReader
from cacheproxy.proxy.downstream.bodies import LARGE, Reservation
from cacheproxy.proxy.downstream.limits import Limits, SiteState

_READ_AHEAD = 128 << 10
"""Bytes of pipelined requests that are read during an answer. Beyond that the transport is paused,
and a client that leaves goes unnoticed until the answer is written."""
NOTHING = RequestReader(Limits())
"""The reader of a connection that reads no more; it is never fed."""


class Incoming:
    """The requests and bytes that have come on a connection and are not answered yet.

    ``reader``: parses requests. ``head``: head of the request whose body is awaited. ``ahead``:
    bytes read during an answer, or while a body waits for room; ``later``: timer of their reading.
    ``place``: reservation for a large body, until its request is done.
    """

    __slots__ = ("_bodies", "ahead", "head", "later", "place", "reader")

    def __init__(self, site: SiteState, limits: Limits) -> None:
        self.reader = RequestReader(limits)
        self.head: RequestHead | None = None
        self.ahead = bytearray()
        self.later: IDelayedCall | None = None
        self._bodies = site.bodies
        self.place: Reservation | None = None

    @property
    def is_much(self) -> bool:
        """Whether so many bytes have come ahead that reading has to pause."""
        return len(self.ahead) > _READ_AHEAD

    def take_ahead(self) -> bool:
        """Feed the reader the bytes that came ahead; return whether it has any to parse."""
        if self.ahead:
            self.reader.feed(bytes(self.ahead))
            self.ahead.clear()
        return self.reader.waiting

    def may_be(self, size: int, go_on: Callable[[], object]) -> bool:
        """Whether there is room for ``size`` bytes of the body; if not, ``go_on`` is called later.

        A body that has a place already may grow to any size.
        """
        place = self.place
        if place is not None:
            place.grow(size)
        elif size > LARGE:
            place = self.place = self._bodies.place(size, go_on)
        return place is None or not place.waits

    def make_room(self, size: int) -> Deferred[None] | None:
        """Reserve room for the running request's body, of ``size`` bytes unpacked.

        Return a Deferred that fires as soon as there is room, None if there is already.
        """
        room: Deferred[None] = Deferred()
        return None if self.may_be(size, partial(room.callback, None)) else room

    def done(self) -> None:
        """Free the body's room: its request is done."""
        if self.place is not None:
            self.place.leave()
            self.place = None

    def drop(self) -> None:
        """Discard all bytes that have come, and read no more."""
        self.reader = NOTHING
        self.head = None
        self.ahead.clear()
        if self.later is not None:
            self.later.cancel()
            self.later = None
        self.done()
