"""Recent events at an upstream: finished turns, and the states of its slots."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.servers.status import Look, UpstreamState
from cacheproxy.record.exchange import Exchange

_TURNS, _LOOKS = 512, 256
_MOST = 0.9
"""Share of a prompt that a slot must hold to be said to hold it."""

Lane = tuple[Session, int]
"""A session, and a lane of it."""


class Passed(NamedTuple):
    """A turn that has passed."""

    lane: Lane  #: that it was of
    upstream: str  #: where it went
    begun: float  #: seconds since the epoch
    ended: float  #: seconds since the epoch
    evaluated: int | None  #: tokens, if told


class _Seen(NamedTuple):
    """What a look at an upstream showed."""

    upstream: str  #: its URL
    wall: float  #: seconds since the epoch
    is_down: bool  #: it did not answer
    held: int | None  #: tokens in the fullest slot of an idle one


class PassedTurns:
    """The last turns and looks, as many as are kept; the oldest go first."""

    def __init__(self) -> None:
        self._turns: deque[Passed] = deque(maxlen=_TURNS)
        self._looks: deque[_Seen] = deque(maxlen=_LOOKS)

    def add(self, turn: Passed) -> None:
        """Take note of a turn that has ended."""
        self._turns.append(turn)

    def looked(self, look: Look) -> None:
        """Take note of a look at the upstream."""
        idle = bool(look.slots) and not any(slot.busy for slot in look.slots)
        held = max(slot.used for slot in look.slots) if idle else None
        self._looks.append(_Seen(look.url, look.wall, look.state is UpstreamState.DOWN, held))

    def since(self, ended: float, exchange: Exchange, lane: Lane | None) -> list[Passed]:
        """Return what others than ``lane`` did between ``ended`` and ``exchange``'s prefill."""
        begun = exchange.wall + (exchange.first_byte or exchange.seconds)
        return [
            turn
            for turn in self._turns
            if turn.upstream == exchange.upstream
            and turn.lane != lane
            and turn.ended > ended
            and turn.begun < begun
        ]

    def was_down(self, upstream: str, since: float, until: float) -> bool:
        """Whether ``upstream``, a URL, was seen down."""
        return any(look.is_down for look in self._between(upstream, since, until))

    def was_empty(self, upstream: str, since: float, until: float, tokens: int) -> bool:
        """Whether all slots were seen idle, and none held as much as ``tokens``."""
        return any(
            look.held is not None and look.held < _MOST * tokens
            for look in self._between(upstream, since, until)
        )

    def _between(self, upstream: str, since: float, until: float) -> list[_Seen]:
        return [
            look for look in self._looks if since < look.wall < until and look.upstream == upstream
        ]
