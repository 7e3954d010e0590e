"""The order of requests at one server: each goes at once, or waits for another one.

There are two reasons to wait. A *head* (the part of a prompt before its first message) that is
being read for another request is read only once, if the server shares it among running requests;
if each of its copies serves one request at a time, a copy stays with its conversation until that is
over. A *place*, if there are too few, stays with its conversation while that is about to go on.
Each wait ends with its reason, at the latest after ``most`` seconds. Pure: time is an argument.

No request waits for another owner's: one person's requests have no effect on another's.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from cacheproxy.core.kinds.ask import Ask
from cacheproxy.core.kinds.profile import Shares
from cacheproxy.core.kinds.seat import Copy, Head, Seat

_LEFT = itemgetter(0)
_BESIDE = 2.0
"""Factor of a prompt's time beside another prompt: the server divides its speed."""
_LEAST_PAUSES = 2
"""Pauses of a conversation that a prediction of its next turn needs at least."""
_MOST_KNOWN, _MOST_HEADS = 64, 16
"""Conversations, and heads, at most that are remembered."""
_DOUBT = 3.0
"""Factor of the time that a conversation of unknown length has taken: what it is to take yet."""


class Terms(NamedTuple):
    """A server's treatment of several requests' prompts."""

    shares: bool = False
    """Whether a head serves other requests as soon as it has been read, but not while it is."""
    moves: bool = False  #: whether a head serves one request at a time, until its answer ends
    places: int | None = None  #: number of prompts that it retains; None: enough
    room: float = math.inf  #: tokens of prompts that it retains in all, if ``places`` is known


class Busy(NamedTuple):
    """A request that the server works on."""

    ask: Ask  #: the request
    is_reading: bool = True  #: whether the server still reads its prompt
    is_sure: bool = True  #: whether that was observed, not inferred from the speed
    left: float | None = None  #: seconds until the prompt is read; None: not known
    said: float = 0.0  #: seconds since its answer began


class Order:
    """The order of requests at one server. ``most``: seconds that a request waits at most.

    ``line``: the waiting requests, in the order in which they came.
    """

    def __init__(self, most: float) -> None:
        self.line: list[Ask] = []
        self._most = most
        self._known: dict[Hashable, Seat] = {}  # the conversations, in the order of their use
        self._heads: dict[Hashable, Head] = {}  # the heads, in the order of their last request
        self._seated: list[Seat] = []  # the conversations with a place, in the order of their use

    def comes(self, ask: Ask, working: Iterable[Busy], terms: Terms, now: float) -> list[Ask]:
        """Add ``ask``; return the requests to be sent now. ``ask`` is one of them, or waits."""
        ask.since = now
        self.line.append(ask)
        return self.look(working, terms, now)

    def look(self, working: Iterable[Busy], terms: Terms, now: float) -> list[Ask]:
        """Return the waiting requests to be sent now, in their order; they count as sent."""
        busy, gone = list(working), list[Ask]()
        for ask in tuple(self.line):
            others = [] if self._is_overdue(ask, now) else self._waits_for(ask, busy, terms, now)
            if others:
                ask.waits_for, ask.more = others[0], len(others) - 1
                if ask.until is None:
                    ask.until = now + self._longest(ask, terms)
                continue
            same = [one for one in busy if _same(one.ask, ask)]
            seat = self._seat_of(ask, terms)
            if terms.moves and ask.head is not None:
                ask.has_copy = self._head_of(ask, same, now).take(seat, now, self._most)
            elif same and not ask.is_read and all(one.is_sure for one in same):
                reading = all(one.is_reading for one in same)
                ask.beside = Shares.READING if reading else Shares.READ
            self.leaves(ask)
            busy.append(Busy(ask, is_sure=False, left=ask.seconds))
            gone.append(ask)
        return gone

    def leaves(self, ask: Ask) -> None:
        """Remove ``ask`` from the line."""
        ask.waits_for = None  # else each request would retain the one before
        if ask in self.line:
            self.line.remove(ask)

    def ended(self, ask: Ask, now: float, *, calls: bool | None = None) -> None:
        """Take note that the answer to ``ask`` has ended, whole or not; ``calls``: it calls tools.

        None: that is not known.
        """
        seat = self._known.get(ask.key)
        if seat is not None and seat.running:
            seat.running, seat.ended, seat.calls = seat.running - 1, now, calls

    def answered(self, ask: Ask, *, was_there: bool) -> None:
        """Take note of an answer; ``was_there``: its head was at the server."""
        if ask.has_copy and not was_there and (head := self._heads.get((ask.owner, ask.head))):
            head.copies.clear()  # the server has dropped them, or was restarted

    @staticmethod
    def _is_overdue(ask: Ask, now: float) -> bool:
        return ask.until is not None and now >= ask.until

    def _longest(self, ask: Ask, terms: Terms) -> float:
        """Return the seconds to wait at most: no more than reading the head again would take."""
        if terms.places is not None or terms.moves or not ask.head_seconds:
            return self._most
        return min(self._most, _BESIDE * ask.head_seconds)

    def _waits_for(self, ask: Ask, busy: list[Busy], terms: Terms, now: float) -> list[Ask]:
        """Return the requests that have what ``ask`` waits for, none if it goes."""
        found: list[Ask] = []
        if ask.head_seconds and (terms.shares or terms.moves):
            same = [one for one in busy if _same(one.ask, ask)]
            found = self._reader(ask, same) if terms.shares else self._holders(ask, same, now)
        if not found and terms.places is not None:
            found = self._sitters(ask, terms.places, terms.room, now)
        return found

    @staticmethod
    def _reader(ask: Ask, same: list[Busy]) -> list[Ask]:
        """Return the requests for whose head ``ask`` should wait, none if waiting does not pay.

        Sent beside that request, the head would be read again, at half the speed.
        """
        assert ask.head_seconds is not None
        if not all(one.is_reading for one in same):
            return []
        ways = [(one.left, one.ask) for one in same if one.left is not None]
        return _soonest(ways, _BESIDE * ask.head_seconds)

    def _holders(self, ask: Ask, same: list[Busy], now: float) -> list[Ask]:
        """Return the requests that have the copies of the head, none if ``ask`` need not wait.

        A copy is free once its conversation is over, not between two turns: whoever takes it then
        is read on top of it, and the conversation has to read all of its own anew. It is waited for
        if that is sooner than to read the head. A conversation of unknown length is expected to
        go on for three times what the longest has taken; the rest of a prefill is no loss, since
        ``ask``'s own would come after it. A request that is to read a head of its own is sent while
        no copy is idle: the server would put it on top of an idle one.
        """
        assert ask.head_seconds is not None
        head = self._head_of(ask, same, now)
        own = self._known.get(ask.key)
        if not head.copies or head.copy_of(own) or head.free(ask, now, self._most):
            return []
        usual = median(head.times) if head.times else 0.0
        spent = [0.0 if one.since is None else now - one.since for one in head.copies]
        longest = _DOUBT * max(spent)
        ways = [
            (usual - each if each < usual else longest, one.seat.ask)
            for each, one in zip(spent, head.copies, strict=True)
        ]
        idle = [one.seat.ask for one in head.copies if not one.is_running]
        return _soonest(ways, ask.head_seconds) or idle

    def _head_of(self, ask: Ask, same: list[Busy], now: float) -> Head:
        """Return what is known of its head; ``same``: the running requests that have it."""
        key = ask.owner, ask.head
        head = self._heads.pop(key, None)
        self._heads[key] = head = Head() if head is None else head
        if len(self._heads) > _MOST_HEADS:
            del self._heads[next(iter(self._heads))]
        for copy in head.copies:
            copy.is_running = False
        for one in same:
            seat = self._known.get(one.ask.key)
            found = head.copy_of(seat)
            if found is None:  # it was sent while nobody waited
                found = Copy(seat or self._seat_of(one.ask, Terms()))
                head.copies.append(found)
            found.is_running = True
            if not one.is_reading and found.since is None:
                found.since = now - one.said
        return head

    def _sitters(self, ask: Ask, places: int, room: float, now: float) -> list[Ask]:
        """Return the requests whose places ``ask`` would take away, none if it has or gets one."""
        if self._known.get(ask.key) in self._seated:
            return []
        kept = [seat.ask for seat in self._seated if self._keeps(seat, ask, now)]
        return kept if _is_full(kept, ask, places, room) else []

    def _keeps(self, seat: Seat, ask: Ask, now: float) -> bool:
        """Whether the place of ``seat`` stays with its conversation, and does not go to ``ask``."""
        other = seat.ask
        if other.owner != ask.owner or ask.is_kin(other):
            return False
        if seat.running:
            return True
        return (
            other.names_agents and ask.names_agents and seat.is_due(now, self._most, _LEAST_PAUSES)
        )

    def _seat_of(self, ask: Ask, terms: Terms) -> Seat:
        """Return the seat of its conversation, which ``ask`` is the last request of now.

        Where places are few, it gets its own, a free one, or the one that was idle the longest.
        """
        key, seated = ask.key, self._seated
        seat = self._known.pop(key, None)
        ask.was_taken = terms.places is not None and seat is not None and seat not in seated
        self._known[key] = seat = Seat(ask) if seat is None else seat
        if len(self._known) > _MOST_KNOWN:
            gone = self._known.pop(next(iter(self._known)))
            if gone in seated:
                seated.remove(gone)
        if seat.running:
            ask.pause = None
        elif seat.ended is not None:
            ask.pause = ask.since - seat.ended
        if ask.pause is not None:
            seat.came(ask.pause)
        seat.ask, seat.running = ask, seat.running + 1
        if terms.places is not None:
            if seat in seated:
                seated.remove(seat)
            while _is_full([one.ask for one in seated], ask, terms.places, terms.room):
                seated.remove(next((one for one in seated if not one.running), seated[0]))
            seated.append(seat)
        return seat


def _soonest(ways: list[tuple[float, Ask]], worth: float) -> list[Ask]:
    """Return the requests of ``ways``, the first to end first; none if it ends after ``worth``."""
    ways.sort(key=_LEFT)
    return [ask for _, ask in ways] if ways and ways[0][0] < worth else []


def _is_full(there: list[Ask], ask: Ask, places: int, room: float) -> bool:
    """Whether ``ask`` has no place beside ``there``; alone it has one, however long it is."""
    tokens = sum(one.tokens for one in there) + ask.tokens
    return bool(there) and (len(there) >= places or tokens > room)


def _same(one: Ask, other: Ask) -> bool:
    """Whether two requests have one owner and equal heads."""
    return one.owner == other.owner and other.head is not None and one.head == other.head
