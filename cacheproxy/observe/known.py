"""What is remembered of each session's prompts, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import compress, starmap
from operator import attrgetter, is_not
from sys import getsizeof

from cacheproxy.core.document import Document
from cacheproxy.core.exchange import Exchange
from cacheproxy.core.overlap import overlap
from cacheproxy.core.prompt import Order, Prompt, first_item, prompt_of
from cacheproxy.core.request import Request
from cacheproxy.core.segments import EACH_SEGMENT, Piece
from cacheproxy.core.turns import Lanes, Place
from cacheproxy.core.usage import NOTHING, Usage
from cacheproxy.core.verdict import Before, Verdict, judge

_MOST_BYTES = 128 << 20
"""As estimated, which is twice what it takes: 20 conversations of 500 KB in 2,300 messages. A turn
of one that was forgotten costs twenty times as much."""
_MOST_SESSIONS = 10_000
_MOST_LANES = 64
_EACH_SESSION = 2500
"""Bytes that Python adds to the prompts themselves, as measured."""
_COST, _TEXT = attrgetter("cost"), attrgetter("text")


@dataclass(slots=True)
class _Known:
    """One session: its lanes, and the last prompt of each that is still kept.

    ``document``: the last that was made on the way, by a translation say, and is read only here.
    """

    lanes: Lanes = field(default_factory=Lanes)
    last: dict[int, Before] = field(default_factory=dict)
    costs: dict[int, int] = field(default_factory=dict)
    document: Document | None = None
    cost: int = 0

    def read(self, request: Request) -> None:
        """Read a request that nobody has read, with the last such one at hand."""
        if request.is_read:
            return
        if self.document is not None:
            request.after(overlap(request.body, self.document))
        self.document = request.document
        request.literals.settle()

    def like(self, request: Request) -> Prompt | None:
        """Return the prompt that ``request`` is likely to go on from."""
        first = first_item(request)
        for before in self.last.values():
            if first is not None and before.sent.first_item is first:
                return before.sent
        return next((before.sent for before in reversed(self.last.values())), None)


class KnownPrompts:
    """The last prompt of every lane of every session; the least recently used session goes first.

    Not thread-safe: it belongs to whoever judges. ``bytes_kept`` estimates what is held.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self.bytes_kept = 0
        self._most_bytes = most_bytes
        self._sessions: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def judge(self, exchange: Exchange, order: Order) -> tuple[Verdict, Place] | None:
        """Return the verdict on a turn and its place; None if there is no prompt we can read."""
        if exchange.session is None or exchange.sent is None:
            return None
        key = (exchange.session.client, exchange.session.id)
        known = self._sessions.pop(key, None) or _Known()
        self._sessions[key] = known
        known.read(exchange.sent)
        sent = unedited = prompt_of(exchange.sent, order, known.like(exchange.sent))
        if exchange.sent is not exchange.received:
            unedited = prompt_of(exchange.received, order, sent)
        if sent is None or unedited is None:
            return None
        if len(known.last) >= _MOST_LANES:  # a client that never repeats itself: begin anew
            known.lanes, known.last, known.costs = Lanes(), {}, {}
        place = known.lanes.place(sent)
        before = known.last.get(place.lane)
        verdict = judge(
            before,
            sent,
            unedited,
            exchange.usage,
            first=place.turn == 1,
            replaced=place.replaced,
        )
        self._keep(known, place.lane, _next(sent, unedited, exchange.usage, before))
        return verdict, place

    def _keep(self, known: _Known, lane: int, before: Before) -> None:
        self.bytes_kept -= known.cost
        known.last[lane], known.costs[lane] = before, _cost(before)
        known.cost = _EACH_SESSION + sum(known.costs.values())
        if known.document is not None:
            known.cost += known.document.cost
        self.bytes_kept += known.cost
        while self._sessions and (
            self.bytes_kept > self._most_bytes or len(self._sessions) > _MOST_SESSIONS
        ):
            _, gone = self._sessions.popitem(last=False)
            self.bytes_kept -= gone.cost


def _next(sent: Prompt, unedited: Prompt, usage: Usage, before: Before | None) -> Before:
    """A turn that failed was not evaluated: the cache still holds the one before."""
    if usage.prompt is None and usage == NOTHING and before is not None:
        return before
    return Before(sent, unedited, usage.prompt)


def _cost(before: Before) -> int:
    """Bytes that ``before`` takes: what both prompts have in common is there but once."""
    cost = before.sent.cost
    if before.unedited is not before.sent:
        ours, theirs = _own(before.unedited, before.sent), _own(before.sent, before.unedited)
        cost += sum(map(_COST, ours[len(theirs) :]))
        others = compress(zip(ours, theirs, strict=False), map(is_not, ours, theirs))
        cost += sum(starmap(_besides, others))
    return cost


def _own(prompt: Prompt, other: Prompt) -> tuple[Piece, ...]:
    """The pieces of ``prompt``, without those of the messages if the other one has the same."""
    made = prompt.made
    if made.run is other.made.run:
        return (made.tool_piece, *made.texts.values())
    return prompt.pieces


def _besides(piece: Piece, other: Piece) -> int:
    texts = {*map(id, map(_TEXT, other.segments))}
    own = [text for text in map(_TEXT, piece.segments) if id(text) not in texts]
    return sum(map(getsizeof, own)) + EACH_SEGMENT * len(own)
