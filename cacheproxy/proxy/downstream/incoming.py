"""What has come on a connection and is not answered yet."""

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
"""Bytes of pipelined requests that are read behind a running one. Beyond it the transport is
paused, and a client that leaves goes unnoticed until the answer is written."""
NOTHING = RequestReader(Limits())
"""It is fed nothing: there is no more to be read."""


class Incoming:
    """``reader`` reads requests from what has come; ``head`` is that whose body is awaited.

    ``ahead`` waits behind a request that is answered, or for room; ``later``: when it is read.
    ``place``: the large body's, until the request is done.
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
        """Whether so much has come ahead that no more is to be read."""
        return len(self.ahead) > _READ_AHEAD

    def take_ahead(self) -> bool:
        """Have the reader read what came ahead; return whether there is something to be read."""
        if self.ahead:
            self.reader.feed(bytes(self.ahead))
            self.ahead.clear()
        return self.reader.waiting

    def may_be(self, size: int, go_on: Callable[[], object]) -> bool:
        """Whether there is room for ``size`` bytes of the body; if not, ``go_on`` is called later.

        Who has a place has room, whatever it comes to.
        """
        place = self.place
        if place is not None:
            place.grow(size)
        elif size > LARGE:
            place = self.place = self._bodies.place(size, go_on)
        return place is None or not place.waits

    def make_room(self, size: int) -> Deferred[None] | None:
        """Have room for the body of the running request, which comes to ``size`` bytes unpacked.

        Return what fires as soon as there is, None if there is already.
        """
        room: Deferred[None] = Deferred()
        return None if self.may_be(size, partial(room.callback, None)) else room

    def done(self) -> None:
        """Give room to others: nobody needs the body any more."""
        if self.place is not None:
            self.place.leave()
            self.place = None

    def drop(self) -> None:
        """Keep nothing of what has come, and read no more of it."""
        self.reader = NOTHING
        self.head = None
        self.ahead.clear()
        if self.later is not None:
            self.later.cancel()
            self.later = None
        if self.place is not None:
            self.done()
