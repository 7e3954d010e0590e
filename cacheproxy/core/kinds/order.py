"""The order of requests at one server: which goes at once, and which waits for another.

Two reasons to wait. A *head* (all that a prompt has before its first message) that is being read
for another request is read once, if the server shares it among requests that run. A *place* of
which there are too few stays with its conversation while that is about to go on. Both waits end
with what is waited for, at the latest after ``most`` seconds. Pure: time is an argument.

Nobody waits for another owner's request: what one person sends decides nothing for another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from cacheproxy.core.kinds.profile import Shares

_BESIDE = 2.0
"""Times as long as alone that a prompt takes beside another: the server divides its speed."""
_PAUSES, _LEAST_PAUSES = 5, 2
"""Pauses of a conversation that are remembered, and from which on they tell the next one."""
_SOON = 1.0
"""Seconds for which a conversation that goes on fast is expected, however short its pauses."""
_MOST_KNOWN = 64
"""Conversations whose pauses are remembered."""


class Terms(NamedTuple):
    """What a server does with the prompts of several requests."""

    shares: bool = False
    """A head that has been read serves others at once, and none while it is being read."""
    moves: bool = False  #: it serves one request at a time: the next once that answer has ended
    places: int | None = None  #: prompts that it keeps; None: enough


@dataclass(eq=False, slots=True)
class Ask:
    """A request to one server, as far as its order there depends on it."""

    owner: Hashable = b""  #: whose it is
    conversation: Hashable = ""  #: its conversation,
    lane: int = 0  #: and which of its parts that extend one another
    root: Hashable = None  #: the conversation that it works for; None: none
    names_agents: bool = False  #: whether its client says which conversation works for which
    head: Any = None  #: equal to another's where both prompts begin with the same bytes
    share: float = 0.0  #: the head's part of the prompt, by characters
    is_read: bool = False  #: whether the server had the head before those that run
    head_seconds: float | None = None  #: what it takes to read the head; None: nobody waits for it
    seconds: float | None = None  #: what the whole prompt takes, where nothing of it is reused
    label: str = ""  #: for people
    since: float = 0.0  #: when it came, in seconds of a monotonic clock
    until: float | None = None  #: when it goes at the latest; None: it has not waited
    waits_for: Ask | None = None  #: whom it waits for
    pause: float | None = None  #: seconds since its conversation's last answer, where that is known
    was_taken: bool = False  #: another conversation had taken its place before it came back
    beside: Shares | None = None
    """What the reuse of its head tells, since it was sent beside requests with that."""

    def is_kin(self, other: Ask) -> bool:
        """Whether one is the other's conversation, or works for it: one may wait for the other."""
        mine, theirs = self.conversation, other.conversation
        return mine in (theirs, other.root) or theirs == self.root


class Busy(NamedTuple):
    """A request that the server works at."""

    ask: Ask  #: that was sent
    is_reading: bool = True  #: it still reads the prompt
    is_sure: bool = True  #: that is seen; else it follows from the speed
    left: float | None = None  #: seconds until it has; None: nobody knows
    ends: float | None = None  #: seconds until the answer ends; None: nobody knows


@dataclass(eq=False, slots=True)
class _Seat:
    """A conversation's place, and how it goes on."""

    ask: Ask  #: its last request
    running: int = 0  #: its requests that the server works at
    ended: float | None = None  #: when its last answer ended
    pauses: deque[float] = field(default_factory=lambda: deque(maxlen=_PAUSES))
    """Seconds between an answer and the next request, the last ones."""

    def is_due(self, now: float, most: float) -> bool:
        """Whether its next turn is about to come, by its last pauses; unknown: it is not."""
        if self.ended is None or len(self.pauses) < _LEAST_PAUSES:
            return False
        return now - self.ended < min(most, max(_SOON, 2 * median(self.pauses)))


class Order:
    """The order at one server. ``most``: seconds that one waits, at most.

    ``line``: those that wait, the first to have come first.
    """

    def __init__(self, most: float) -> None:
        self.line: list[Ask] = []
        self._most = most
        self._known: dict[Hashable, _Seat] = {}  # the one used last is the last
        self._seated: list[_Seat] = []  # those that have a place, in the order of their use

    def comes(self, ask: Ask, working: Iterable[Busy], terms: Terms, now: float) -> list[Ask]:
        """Take ``ask`` in; return all that go now: this one is among them, or in the line."""
        ask.since = now
        self.line.append(ask)
        return self.look(working, terms, now)

    def look(self, working: Iterable[Busy], terms: Terms, now: float) -> list[Ask]:
        """Return those of the line that go now, in their order. Each is worked at from now on."""
        busy, gone = list(working), list[Ask]()
        for ask in tuple(self.line):
            other = None if self._is_late(ask, now) else self._waits_for(ask, busy, terms, now)
            if other is not None:
                ask.waits_for = other
                if ask.until is None:
                    ask.until = now + self._longest(ask, terms)
                continue
            same = [one for one in busy if _same(one.ask, ask)]
            if same and not ask.is_read and all(one.is_sure for one in same):
                reading = all(one.is_reading for one in same)
                ask.beside = Shares.READING if reading else Shares.READ
            self.leaves(ask)
            self._sit_down(ask, terms)
            busy.append(Busy(ask, is_sure=False, left=ask.seconds))
            gone.append(ask)
        return gone

    def leaves(self, ask: Ask) -> None:
        """Let go of one that waits no more."""
        ask.waits_for = None  # else each would keep the one before, and that the one before it
        if ask in self.line:
            self.line.remove(ask)

    def ended(self, ask: Ask, now: float) -> None:
        """Take note that the answer to ``ask`` has ended, however it did."""
        seat = self._known.get((ask.conversation, ask.lane))
        if seat is not None and seat.running:
            seat.running, seat.ended = seat.running - 1, now

    @staticmethod
    def _is_late(ask: Ask, now: float) -> bool:
        return ask.until is not None and now >= ask.until

    def _longest(self, ask: Ask, terms: Terms) -> float:
        """Return for how long to wait: no longer than it takes to read the head once more."""
        if terms.places is not None or not ask.head_seconds:
            return self._most
        return min(self._most, _BESIDE * ask.head_seconds)

    def _waits_for(self, ask: Ask, busy: list[Busy], terms: Terms, now: float) -> Ask | None:
        found = None
        if ask.head_seconds and (terms.shares or terms.moves):
            found = self._reader(ask, [one for one in busy if _same(one.ask, ask)], terms)
        if found is None and terms.places is not None:
            found = self._sitter(ask, terms.places, now)
        return found

    @staticmethod
    def _reader(ask: Ask, same: list[Busy], terms: Terms) -> Ask | None:
        """Return whose head it waits for, where that saves more than it takes.

        Beside that one its own would be read at half the speed.
        """
        assert ask.head_seconds is not None
        if terms.shares:
            if not all(one.is_reading for one in same):
                return None
            ways = [(one.left, one.ask) for one in same if one.left is not None]
            worth = _BESIDE * ask.head_seconds
        else:
            ways = [(one.ends, one.ask) for one in same if one.ends is not None]
            worth = ask.head_seconds
        left, first = min(ways, key=lambda way: way[0], default=(worth, None))
        return first if left < worth else None

    def _sitter(self, ask: Ask, places: int, now: float) -> Ask | None:
        """Return who has a place that ``ask`` would take away, None where one is free for it."""
        seated, own = self._seated, self._known.get((ask.conversation, ask.lane))
        if len(seated) < places or own in seated:
            return None
        if all(self._keeps(seat, ask, now) for seat in seated):
            return seated[0].ask
        return None

    def _keeps(self, seat: _Seat, ask: Ask, now: float) -> bool:
        """Whether a place stays with its conversation, for all that ``ask`` has to say."""
        other = seat.ask
        if other.owner != ask.owner or ask.is_kin(other):
            return False
        if seat.running:
            return True
        return other.names_agents and ask.names_agents and seat.is_due(now, self._most)

    def _sit_down(self, ask: Ask, terms: Terms) -> None:
        """Have ``ask`` take its place: its conversation's own, a free one, or the idlest."""
        if terms.places is None:
            return
        key, seated = (ask.conversation, ask.lane), self._seated
        ask.was_taken = key in self._known and self._known[key] not in seated
        seat = self._known.pop(key, None) or _Seat(ask)
        self._known[key] = seat
        if len(self._known) > _MOST_KNOWN:
            gone = self._known.pop(next(iter(self._known)))
            if gone in seated:
                seated.remove(gone)
        if seat.running:
            ask.pause = None
        elif seat.ended is not None:
            ask.pause = ask.since - seat.ended
        if ask.pause is not None:
            seat.pauses.append(ask.pause)
        seat.ask, seat.running = ask, seat.running + 1
        if seat in seated:
            seated.remove(seat)
        while len(seated) >= terms.places:
            seated.remove(next((one for one in seated if not one.running), seated[0]))
        seated.append(seat)


def _same(one: Ask, other: Ask) -> bool:
    """Whether two prompts of one owner begin alike."""
    return one.owner == other.owner and other.head is not None and one.head == other.head
