"""Alarms for costly breaks, by one turn or by several together, and for repeated failures."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from cacheproxy.core.conversation.session import Session, parent_of
from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.core.judge.explain import command, phrase
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.rules.fold import one_line
from cacheproxy.record.exchange import Exchange

_AGAIN = 86_400.0
"""Seconds before the same cause raises an alarm again."""
_MOST_SESSIONS = 1_000
_MOST_RAISED = 4_000
FAILED = "failed"
"""Cause of an alarm for failures."""
_STUCK = 3
"""Failed prompts in a row that raise an alarm: after fewer, a client's own retries may succeed."""
_LONGEST = 64
"""Characters at most of a name that a client has chosen."""
_LOSSES = (Judgement.BREAK, Judgement.CUT)
_JUDGED = (Judgement.OK, *_LOSSES)
_REUSED, _LOST, _SECONDS = map(attrgetter, ("reused", "lost", "seconds"))


class AlarmLimits(msgspec.Struct, frozen=True):
    """Losses from which on an alarm is raised; 0: never."""

    tokens: Annotated[int, Meta(ge=0)] = 20_000
    """Tokens lost by one turn, or by the last ``turns`` together if these reused too little."""
    seconds: Annotated[float, Meta(ge=0)] = 40.0  #: seconds lost, likewise
    reuse: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Share of the earlier turns' tokens, 0 to 1, below which the reuse of ``turns`` is too
    little."""
    turns: Annotated[int, Meta(ge=1, le=100)] = 5  #: number of turns that are counted together


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm's facts, without any text of a prompt."""

    client: str  #: the client's name
    session: str  #: the session's label, as in the log
    turn: int  #: number of the last of the turns
    cause: str  #: the cause's word in the log
    phrase: str  #: the cause in words
    tokens: int  #: tokens lost by ``turns`` turns
    seconds: float | None  #: seconds lost; None if no speed is known
    turns: int  #: number of turns that lost them
    command: str  #: command that explains the loss, and proposes a rule where one may help
    upstream: str  #: name or URL of the upstream
    at: float  #: seconds since the epoch

    @property
    def title(self) -> str:
        """Sentence that names the session and what happened: a lost cache, or no answers."""
        if self.cause == FAILED:
            return f"{self.session} gets no answers"
        return f"{self.session} lost its prompt cache"

    @property
    def text(self) -> str:
        """The cause and the cost, for people."""
        if self.cause == FAILED:
            return f"{self.turns} requests failed one after the other: {self.phrase}."
        seconds = "" if self.seconds is None else f", {self.seconds:,.0f} s"
        several = f" in {self.turns} turns" if self.turns > 1 else ""
        return f"{self.phrase}. {self.tokens:,} tokens{seconds} lost{several}."


class _Turn(msgspec.Struct, frozen=True):
    """Tokens of the turn before that a turn reused, and those that it lost."""

    reused: int  #: tokens reused
    lost: int  #: tokens lost
    seconds: float | None  #: seconds lost; None if no speed is known


class Alarms:
    """Decides for each finished exchange whether it raises an alarm: once a day for each cause.

    ``limits`` may be replaced at any time. The memory it needs is bounded.
    """

    def __init__(self, limits: AlarmLimits) -> None:
        self.limits = limits
        self._turns: OrderedDict[Session, deque[_Turn]] = OrderedDict()
        self._failed: OrderedDict[Session, int] = OrderedDict()
        self._raised: OrderedDict[tuple[Session, str], float] = OrderedDict()

    def see(self, exchange: Exchange, now: float, proxy: str = "") -> Alarm | None:
        """Return the alarm that ``exchange`` raises, None for none.

        ``now``: seconds of a clock that does not jump. ``proxy``: see ``explain.command``.
        """
        verdict, session = exchange.verdict, exchange.session
        if session is not None and (exchange.went_wrong or session in self._failed):
            failed = self._failed.get(session, 0) + 1 if exchange.went_wrong else 0
            _put(self._failed, session, failed, _MOST_SESSIONS)
            is_off = not (self.limits.tokens or self.limits.seconds)
            if failed == _STUCK and not is_off and self._is_new((session, FAILED), now):
                why = exchange.error or f"HTTP {exchange.status}"
                doctor = f"cacheproxy doctor{proxy}"
                return _alarm(exchange, session, FAILED, why, command=doctor, turns=_STUCK)
        if verdict is None or session is None or exchange.side or verdict.lost is None:
            return None
        if verdict.judgement not in _JUDGED:
            return None
        turns = deque(self._turns.get(session, ()), maxlen=self.limits.turns)
        turns.append(_Turn(exchange.usage.reused or 0, verdict.lost.tokens, verdict.seconds_lost))
        _put(self._turns, session, turns, _MOST_SESSIONS)
        costly = self._costly(turns) if verdict.judgement in _LOSSES else None
        if not costly:
            return None
        kind = None if verdict.where is None else verdict.where.kind
        why = phrase(verdict.reason or "", kind)
        key = parent_of(exchange.received, session) or session, why
        if not self._is_new(key, now):
            return None
        turns.clear()
        seconds = [each for each in map(_SECONDS, costly) if each is not None]
        cure, reason = command(exchange.number, verdict, proxy), verdict.reason or ""
        alarm = _alarm(exchange, session, reason, why, command=cure, turns=len(costly))
        lost, took = sum(map(_LOST, costly)), sum(seconds) if seconds else None
        return replace(alarm, tokens=lost, seconds=took)

    def _is_new(self, key: tuple[Session, str], now: float) -> bool:
        """Return whether ``key`` raised no alarm within a day, and record that it does now."""
        if now - self._raised.get(key, -_AGAIN) < _AGAIN:
            return False
        _put(self._raised, key, now, _MOST_RAISED)
        return True

    def _costly(self, turns: deque[_Turn]) -> list[_Turn]:
        """Return the turns that together cost too much: the last one, all, or none."""
        limits = self.limits
        for costly in ([turns[-1]], list(turns)):
            lost, reused = sum(map(_LOST, costly)), sum(map(_REUSED, costly))
            seconds = sum(filter(None, map(_SECONDS, costly)))
            is_little = len(costly) > 1 and reused >= limits.reuse * (reused + lost)
            is_costly = 0 < limits.tokens <= lost or 0 < limits.seconds <= seconds
            if is_costly and not is_little:
                return costly
        return []


def _alarm(
    exchange: Exchange, session: Session, cause: str, why: str, *, command: str, turns: int
) -> Alarm:
    client, label = _shown(session.client), _shown(session.label)
    upstream = exchange.server or exchange.upstream
    return Alarm(
        client, label, exchange.turn, cause, why, 0, None, turns, command, upstream, exchange.ended
    )


def _shown(name: str) -> str:
    """Return a name that a client has chosen, made safe to show: it may hold anything."""
    return one_line(hide_text(name)[:_LONGEST], _LONGEST)


def _put(stored: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    stored[key] = value
    stored.move_to_end(key)
    if len(stored) > most:
        stored.popitem(last=False)
