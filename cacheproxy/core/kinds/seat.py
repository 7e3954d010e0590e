"""Conversations at one server, with their pauses, and the copies of heads that they have there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from cacheproxy.core.kinds.ask import Ask

_PAUSES, _TIMES = 5, 5
"""Pauses of a conversation, and last conversations behind a head, that are remembered at most."""
_TOOLS = 5.0
"""Seconds for which the results of tools are expected, before a pause of that kind is known."""
_SOON = 1.0
"""Seconds at least for which a conversation's next turn is expected, even after short pauses;
fewer where it takes less to read what is at stake."""


@dataclass(eq=False, slots=True)
class Seat:
    """A conversation's place at the server, and its pauses."""

    ask: Ask  #: the conversation's last request
    running: int = 0  #: number of its requests that the server works on
    ended: float | None = None  #: when its last answer ended
    calls: bool | None = None  #: whether that answer calls tools, None if not known
    pauses: dict[bool, deque[float]] = field(default_factory=dict)
    """Seconds between its last answers and the next requests: of those that call tools, or not."""

    def came(self, pause: float) -> None:
        """Take note of a request, ``pause`` seconds after the last answer."""
        self.pauses.setdefault(bool(self.calls), deque(maxlen=_PAUSES)).append(pause)

    def is_due(self, now: float, most: float, least: int, worth: float | None = None) -> bool:
        """Whether the next turn is about to come: tools were called, or by the last pauses.

        ``most``: seconds after the last answer at most. ``least``: number of pauses that a
        prediction needs, unless tools were called. ``worth``: seconds that waiting for it saves.
        """
        pauses = self.pauses.get(bool(self.calls), ())
        if self.ended is None or (len(pauses) < least and not self.calls):
            return False
        usual = 2 * median(pauses) if pauses else _TOOLS
        return now - self.ended < min(most, max(min(_SOON, worth or _SOON), usual))


@dataclass(eq=False, slots=True)
class Copy:
    """A copy of a head, in the memory of the conversation that used it last."""

    seat: Seat  #: that conversation
    is_running: bool = True  #: whether the server works on a request of it
    since: float | None = None  #: when the conversation's first answer with it began, None: not yet


@dataclass(eq=False, slots=True)
class Head:
    """A head where each copy of it serves one request at a time."""

    copies: list[Copy] = field(default_factory=list)  #: those that the server has read
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_TIMES))
    """Seconds for which the last conversations behind it had a copy."""

    def copy_of(self, seat: Seat | None) -> Copy | None:
        """Return the copy that the conversation of ``seat`` has, None for none."""
        for one in self.copies:
            if one.seat is seat:
                return one
        return None

    def free(self, ask: Ask, now: float, most: float) -> Copy | None:
        """Return a copy for ``ask`` whose conversation is over, None if each may go on.

        A conversation counts as over where ``ask`` is its own subagent's. ``most``: see Seat.
        """
        for one in self.copies:
            if not one.is_running and (
                ask.is_kin(one.seat.ask) or not one.seat.is_due(now, most, 1, ask.head_seconds)
            ):
                return one
        return None

    def take(self, seat: Seat, now: float, most: float) -> bool:
        """Give a copy to ``seat``: its own, a free one, an idle one; return False if it reads one.

        An idle copy is given, too, as the server puts a request with that head there by itself.
        """
        if (own := self.copy_of(seat)) is not None:
            own.is_running = True
            return True
        idle = (one for one in self.copies if not one.is_running)
        taken = self.free(seat.ask, now, most) or next(idle, None)
        if taken is not None:
            if taken.since is not None and taken.seat.ended is not None:
                self.times.append(taken.seat.ended - taken.since)
            self.copies.remove(taken)
        self.copies.append(Copy(seat))
        return taken is not None
