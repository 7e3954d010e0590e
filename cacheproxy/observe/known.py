"""What is remembered of each session's prompts, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import Any

from cacheproxy.core.exchange import Exchange
from cacheproxy.core.paths import parse_pointer
from cacheproxy.core.prompt import Order, Prompt, prompt_of
from cacheproxy.core.request import Request
from cacheproxy.core.session import Session
from cacheproxy.core.turns import Lanes, Place
from cacheproxy.core.usage import Usage
from cacheproxy.core.verdict import Before, Verdict, judge

_MOST_BYTES = 64 << 20
_MOST_SESSIONS = 10_000
_MOST_LANES = 64
_EACH_SEGMENT = 400
_EACH_SESSION = 2500
"""Bytes that Python adds to the texts themselves, as measured."""


@dataclass(slots=True)
class _Known:
    """One session: its lanes, and the last prompt of each that is still kept."""

    lanes: Lanes = field(default_factory=Lanes)
    last: dict[int, Before] = field(default_factory=dict)
    costs: dict[int, int] = field(default_factory=dict)
    latest: Prompt | None = None
    cost: int = 0


class KnownPrompts:
    """The last prompt of every lane of every session; the least recently used session goes first.

    Not thread-safe: it belongs to whoever judges. ``bytes_kept`` estimates what is held.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self.bytes_kept = 0
        self._most_bytes = most_bytes
        self._sessions: OrderedDict[Session, _Known] = OrderedDict()

    def judge(self, exchange: Exchange, order: Order) -> tuple[Verdict, Place] | None:
        """Return the verdict on a turn and its place; None if there is no prompt we can read."""
        if exchange.session is None or exchange.sent is None:
            return None
        known = self._sessions.pop(exchange.session, None) or _Known()
        self._sessions[exchange.session] = known
        sent = prompt_of(exchange.sent, order, known.latest)
        unedited = _unedited(exchange, sent, order)
        if sent is None or unedited is None:
            return None
        known.latest = sent
        if len(known.last) >= _MOST_LANES:  # a client that never repeats itself: begin anew
            known.lanes, known.last, known.costs = Lanes(), {}, {}
        place = known.lanes.place(sent)
        before = known.last.get(place.lane)
        verdict = judge(before, sent, unedited, exchange.usage, first=place.turn == 1)
        self._keep(known, place.lane, _next(sent, unedited, exchange.usage, before))
        return verdict, place

    def _keep(self, known: _Known, lane: int, before: Before) -> None:
        self.bytes_kept -= known.cost
        known.last[lane], known.costs[lane] = before, _cost(before)
        known.cost = _EACH_SESSION + sum(known.costs.values())
        self.bytes_kept += known.cost
        while self._sessions and (
            self.bytes_kept > self._most_bytes or len(self._sessions) > _MOST_SESSIONS
        ):
            _, gone = self._sessions.popitem(last=False)
            self.bytes_kept -= gone.cost


def _unedited(exchange: Exchange, sent: Prompt | None, order: Order) -> Prompt | None:
    """Return the prompt as it came: what was sent, but for the texts that edits name."""
    if exchange.sent is exchange.received or sent is None:
        return sent
    paths = {edit.path for report in exchange.reports for edit in report.edits}
    inside = all(edit.span is not None for report in exchange.reports for edit in report.edits)
    found = {path: _text_at(exchange.received, path) for path in paths} if inside else {}
    texts = {path: text for path, text in found.items() if text is not None}
    if not texts or len(texts) < len(paths):  # blocks have come or gone: read it as a whole
        return prompt_of(exchange.received, order, sent)
    segments = tuple(
        replace(segment, text=texts[segment.path]) if segment.path in texts else segment
        for segment in sent.segments
    )
    return replace(sent, segments=segments)


def _text_at(request: Request, pointer: str) -> str | None:
    value: Any = request.json
    try:
        for step in parse_pointer(pointer):
            value = value[int(step) if isinstance(value, list) else step]
    except (LookupError, TypeError, ValueError):
        return None
    return value if isinstance(value, str) else None


def _next(sent: Prompt, unedited: Prompt, usage: Usage, before: Before | None) -> Before:
    """A turn that failed was not evaluated: the cache still holds the one before."""
    if usage == Usage() and before is not None:
        return before
    return Before(sent, unedited, usage.prompt)


def _cost(before: Before) -> int:
    """Bytes that ``before`` takes: one emoji makes each character of its text take four."""
    texts = {id(segment.text): segment.text for segment in before.sent.segments}
    count = len(before.sent.segments)
    if before.unedited is not before.sent:
        texts |= {id(segment.text): segment.text for segment in before.unedited.segments}
        count += len(before.unedited.segments)
    return sum(map(getsizeof, texts.values())) + _EACH_SEGMENT * count
