"""What is remembered of each session's prompts, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import compress, starmap
from operator import attrgetter, is_not
from sys import getsizeof
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.lanes import Lanes, Place
from cacheproxy.core.conversation.usage import NOTHING, Usage
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, Verdict
from cacheproxy.core.judge.cause import NOTHING_SEEN, Meanwhile
from cacheproxy.core.judge.judge import Before, judge, order_of, wants_proof
from cacheproxy.core.judge.proof import Compared, Proof
from cacheproxy.core.prompt.prompt import Order, Prompt, prompt_of, reordered
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.prompt.segments import EACH_SEGMENT, Piece
from cacheproxy.core.server.inferred import Inferred
from cacheproxy.core.server.profile import UNKNOWN, Profile
from cacheproxy.observe.passed import Passed, PassedTurns

_MOST_BYTES = 128 << 20
"""As estimated, which is twice what it takes: 20 conversations of 500 KB in 2,300 messages. A turn
of one that was forgotten costs twenty times as much."""
_MOST_SESSIONS = 10_000
_MOST_LANES = 64
_EACH_SESSION = 2500
"""Bytes that Python adds to the prompts themselves, as measured."""
_ENOUGH = 512
"""Tokens of a prompt from which a server is expected to reuse some of it."""
_ORDERED = (Reason.SYSTEM_CHANGED, Reason.TOOLS_CHANGED)
"""Reasons by which the order of the tools and the system text shows."""
_COST, _TEXT = attrgetter("cost"), attrgetter("text")


class Judged(NamedTuple):
    """A turn's verdict, and what it takes to reach a better one.

    ``again``: judges with a proof, with usage that was counted in another way, or with more that
    is known of the time between. ``before``: None where there is nothing to compare.
    """

    verdict: Verdict
    place: Place
    usage: Usage
    again: Callable[..., Verdict]
    before: Before | None
    sent: Prompt
    meanwhile: Meanwhile

    @property
    def wants_proof(self) -> bool:
        """Whether the rendered prompts could tell more."""
        return wants_proof(self.verdict, self.usage)

    def compared(self, profile: Profile) -> Compared | None:
        """Return what a proof is made of, None where something of it is not known."""
        before, prompt = self.before, self.usage.prompt
        if before is None or before.tokens is None or prompt is None:
            return None
        left = parting(reordered(before.sent, self.sent.order), self.sent)
        return Compared(before.sent, self.sent, before.tokens, prompt, left, profile.has_clock)


@dataclass(slots=True)
class _Known:
    """One session: its lanes, and the last prompt of each that is still kept."""

    lanes: Lanes = field(default_factory=Lanes)
    last: dict[int, Before] = field(default_factory=dict)
    costs: dict[int, int] = field(default_factory=dict)
    cost: int = 0


class KnownPrompts:
    """The last prompt of every lane of every session; the least recently used session goes first.

    Not thread-safe: it belongs to whoever judges. ``bytes_kept`` estimates what is held.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self.bytes_kept = 0
        self.passed = PassedTurns()
        self._most_bytes = most_bytes
        self._sessions: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def judge(
        self, exchange: Exchange, profile: Profile = UNKNOWN, inferred: Inferred | None = None
    ) -> Judged | None:
        """Return the verdict on a turn and its place; None if there is no prompt we can read."""
        if exchange.session is None or exchange.sent is None:
            return None
        key = (exchange.session.client, exchange.session.id)
        known = self._sessions.pop(key, None) or _Known()
        self._sessions[key] = known
        order = profile.order or Order.TOOLS_FIRST
        sent = unedited = prompt_of(exchange.sent, order)
        if exchange.sent is not exchange.received:
            unedited = prompt_of(exchange.received, order)
        if sent is None or unedited is None:
            return None
        if len(known.last) >= _MOST_LANES:  # a client that never repeats itself: begin anew
            known.lanes, known.last, known.costs = Lanes(), {}, {}
        place = known.lanes.place(sent)
        before = known.last.get(place.lane)
        usage = _usage(exchange, inferred)
        spoken = exchange.sent.dialect
        caches = (exchange.sent.json or {}).get("cache_prompt") is not False

        def again(
            usage: Usage = usage,
            meanwhile: Meanwhile = NOTHING_SEEN,
            proof: Proof | None = None,
        ) -> Verdict:
            return judge(
                before,
                sent,
                unedited,
                usage,
                profile,
                meanwhile,
                proof,
                first=place.turn == 1,
                replaced=place.replaced,
                caches=caches,
                spoken=spoken,
            )

        verdict, meanwhile = again(), NOTHING_SEEN
        is_break = verdict.judgement is Judgement.BREAK
        if before is not None and (is_break or (usage.reused is None and profile.counts_reuse)):
            meanwhile = self._meanwhile(exchange, (*key, place.lane), before, sent, profile)
            verdict = again(meanwhile=meanwhile) if is_break else verdict
        if inferred is not None:
            _infer(inferred, verdict, before, sent, usage, exchange)
        passed = Passed(
            (*key, place.lane), exchange.upstream, exchange.wall, _end(exchange), usage.evaluated
        )
        self.passed.add(passed)
        self._keep(known, place.lane, _next(exchange, sent, unedited, before, verdict, profile))
        return Judged(verdict, place, usage, again, before, sent, meanwhile)

    def _meanwhile(
        self,
        exchange: Exchange,
        lane: tuple[str, str, int],
        before: Before,
        sent: Prompt,
        profile: Profile,
    ) -> Meanwhile:
        """Return what is known of the time between a turn and the one before it."""
        usage = exchange.usage
        others = self.passed.since(before.ended, exchange, lane)
        shares = []
        for client, session, number in dict.fromkeys(one.lane for one in others[-8:]):
            other = self._sessions.get((client, session))
            last = other.last.get(number) if other is not None else None
            if last is not None and last.sent.order is sent.order and sent.chars:
                share = parting(last.sent, sent).shared / sent.chars
                shares.append(round(share * (usage.prompt or 0)))
        reused = usage.reused or 0
        return Meanwhile(
            others=len({one.lane for one in others}),
            alike=min(shares, key=lambda share: abs(share - reused), default=None),
            evaluated=sum(one.evaluated or 0 for one in others),
            restarted=self.passed.was_down(before.ended, exchange.wall)
            or (None if before.start is None else is_another(before.start, profile.start)),
            emptied=self.passed.was_empty(before.ended, exchange.wall, before.tokens or 0),
            moved=bool(before.upstream) and before.upstream != exchange.upstream,
        )

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


def is_another(start: str | None, now: str | None) -> bool:
    """Whether two marks of a server's start, None for not told, are of two servers."""
    return start is not None and now is not None and start != now


def _usage(exchange: Exchange, inferred: Inferred | None) -> Usage:
    """Return what was counted: a server that has reported reuse leaves it out where it is 0."""
    usage, sent = exchange.usage, exchange.sent
    if inferred is None or sent is None or sent.dialect is None:
        return usage
    if usage.reused is not None or usage.prompt is None or exchange.outcome is not Outcome.COMPLETE:
        return usage
    return replace(usage, reused=0) if inferred.has_reported(sent.dialect) else usage


def _infer(  # noqa: PLR0917 (a turn)
    inferred: Inferred,
    verdict: Verdict,
    before: Before | None,
    sent: Prompt,
    usage: Usage,
    exchange: Exchange,
) -> None:
    """Learn from a turn what its upstream does."""
    if exchange.sent is not None and exchange.sent.dialect is not None:
        expected = verdict.expected  # all of the turn before, which was counted, if it was added to
        appended = expected is not None and expected.source == "measured"
        appended = appended and (usage.prompt or 0) >= _ENOUGH
        inferred.saw_reuse(exchange.sent.dialect, usage.reused, appended=appended)
    is_break = verdict.judgement is Judgement.BREAK
    if before is None or not is_break or verdict.reason not in _ORDERED:
        return
    order = order_of(before, sent, usage)
    if order is not None:
        inferred.saw_order(order)


def learn(inferred: Inferred, verdict: Verdict, proof: Proof | None, usage: Usage) -> None:
    """Learn from rendered prompts how a memory can be gone back in."""
    if proof is None or verdict.basis is not Basis.RENDERED or usage.reused is None:
        return
    if verdict.reason is Reason.CHECKPOINT:
        inferred.saw_checkpoint()
    elif verdict.reason is not Reason.EVICTED and abs(proof.shared - usage.reused) <= 1:
        inferred.saw_rewind()


def _end(exchange: Exchange) -> float:
    return exchange.wall + exchange.seconds


def _next(  # noqa: PLR0917 (a turn)
    exchange: Exchange,
    sent: Prompt,
    unedited: Prompt,
    before: Before | None,
    verdict: Verdict,
    profile: Profile,
) -> Before:
    """A turn that failed was not evaluated: the cache still holds the one before."""
    usage, request = exchange.usage, exchange.sent
    if usage.prompt is None and usage == NOTHING and before is not None:
        return before
    assert request is not None
    return Before(
        sent,
        unedited,
        usage.prompt,
        # without what it remembers of its JSON
        Request(request.method, request.target, request.headers, request.body),
        exchange.upstream,
        usage.output,
        verdict.judgement is Judgement.OK,
        _end(exchange),
        profile.start,
    )


def _cost(before: Before) -> int:
    """Bytes that ``before`` takes: what both prompts have in common is there but once."""
    cost = before.sent.cost
    if before.request is not None:
        cost += len(before.request.body)
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
