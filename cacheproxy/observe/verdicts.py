"""The verdict on each turn, reached from the turn before it in its conversation's store.

Further evidence are recent events at its upstream: finished turns, and the states of its slots.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.lanes import Before, Lane
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import NOTHING, Usage
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, Verdict
from cacheproxy.core.judge.advice import is_curable
from cacheproxy.core.judge.evidence import NOTHING_SEEN, Evidence, Meanwhile, slot_of
from cacheproxy.core.judge.judge import judge, order_of
from cacheproxy.core.kinds.belief import MEMORY, ORDER, REPORTS, TAKEN, Beliefs
from cacheproxy.core.kinds.profile import UNKNOWN, MemoryKind, Profile, Thinking
from cacheproxy.core.kinds.status import Look, UpstreamState
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder, parts_of, prompt_of, reordered
from cacheproxy.record.exchange import WHOLE, Exchange

_ENOUGH = 512
"""Tokens of a prompt from which on a server is expected to reuse some of it."""
_REWOUND, _BEFORE_THE_END = 1, 16
"""Tokens between the end of the reuse and the place where two prompts part. A memory that can
rewind goes back to that very token; llama.cpp's last checkpoint is some four tokens before a
prompt's end."""
_ORDERED = (Reason.SYSTEM_CHANGED, Reason.TOOLS_CHANGED)
"""Reasons that bring out the order of the tools and the system text."""
_TURNS, _LOOKS = 512, 256
_HOLDS = 0.9
"""Share of a prompt that a slot must contain to count as the slot of that prompt."""

_MOVED = Meanwhile(moved=True)
LaneOf = tuple[Session, int]
"""A session, and the number of a lane of it."""


class Verdicts:
    """Reaches the verdicts. ``store``: where conversations are remembered.

    Not thread-safe: only ``Judging`` uses it.
    """

    def __init__(self, store: Store) -> None:
        self.passed = PassedTurns()
        self._store = store

    def judge(
        self, exchange: Exchange, profile: Profile = UNKNOWN, beliefs: Beliefs | None = None
    ) -> Evidence | None:
        """Fill in the verdict on a turn, and its place; return the evidence for the verdict.

        None for an exchange without a prompt that can be parsed. ``profile``: its upstream's.
        """
        session, place, request = exchange.session, exchange.place, exchange.sent
        if session is None or request is None:
            return None
        lane = None if place is None else self._lane(session, place.lane)
        if place is None or lane is None:  # it was never placed, or its conversation was forgotten
            found = self._store.find(session, request)
            session, place = found.session, self._store.begin(found, request)
            lane = self._lane(session, place.lane)
        if lane is None:
            return None
        order, last = profile.order or PromptOrder.TOOLS_FIRST, lane.request
        is_last = request.body is last.body
        if is_last:
            sent: Prompt | None = reordered(lane.prompt, order)
        else:  # it was placed, or translated, or the lane has gone on
            sent = prompt_of(request, order)
        unedited = sent
        if request is not exchange.received:
            unedited = prompt_of(exchange.received, order)
        if sent is None or unedited is None:
            return None
        before, is_first, usage = lane.before_of(sent), lane.turns == 0, exchange.usage
        if usage.reused is None and beliefs is not None:
            usage = _usage(exchange, beliefs)
        is_whole = exchange.outcome in WHOLE
        has_moved = before is not None and before.upstream not in ("", exchange.upstream)
        turn = Evidence(
            before,
            sent,
            unedited,
            usage,
            profile,
            request,
            _MOVED if has_moved else NOTHING_SEEN,
            is_first=is_first,
            is_known=is_first and self._is_known(session, lane),
            is_replaced=place.replaced,
            is_whole=is_whole,
            longest=0 if beliefs is None else beliefs.longest.get(sent.model, 0),
        )
        verdict, key = judge(turn), (session, place.lane)
        is_break = verdict.judgement is Judgement.BREAK
        if before is not None and (is_break or (usage.reused is None and profile.counts_reuse)):
            turn = replace(turn, meanwhile=self._meanwhile(exchange, key, before, turn))
            verdict = judge(turn) if is_break else verdict
        if beliefs is not None:
            _infer(beliefs, verdict, turn)
        ended = exchange.ended
        self.passed.turns.append(
            Passed(key, exchange.upstream, exchange.wall, ended, usage.evaluated)
        )
        following, whole = before, verdict.whole
        if before is None or exchange.usage != NOTHING:  # else the cache still holds that one
            following = Before(
                sent,
                unedited,
                exchange.usage.prompt,
                last if is_last else request.bare(),
                exchange.upstream,
                exchange.usage.output,
                verdict.judgement is Judgement.OK,
                ended,
                profile.start,
                usage.evaluated,
                whole.tokens if whole is not None and whole.source == "measured" else None,
            )
        curable = verdict.reason is not None and is_curable(verdict)
        # Another reason may hide such a change, which a proof shows later.
        broke = curable or (verdict.reason is not None and verdict.where is not None)
        place = self._store.end(
            session,
            place,
            following,
            before=before,
            broke=broke,
            curable=curable,
            is_whole=is_whole,
        )
        exchange.verdict, exchange.place, exchange.usage = verdict, place, usage
        exchange.turn, exchange.side = place.turn, place.is_side
        if usage.prompt is not None:
            way = profile.thoughts.way
            drops, hides = way is Thinking.DROPPED, way is Thinking.NEVER_SHOWN
            exchange.parts = parts_of(
                sent, usage.prompt, drops_thinking=drops, hides_thinking=hides
            )
        return turn

    def _lane(self, session: Session, number: int) -> Lane | None:
        known = self._store.conversation(session)
        return None if known is None else known.lane(number)

    def _is_known(self, session: Session, lane: Lane) -> bool:
        """Return whether other turns of its conversation are known, or of the one it works for.

        A side request may repeat them: it has answers in it, and is new nevertheless.
        """
        known = self._store.conversation(session)
        root = None if known is None or known.root is None else self._store.conversation(known.root)
        lanes = [one for each in (known, root) if each is not None for one in each.lanes]
        return any(one.turns for one in lanes if one is not lane)

    def _meanwhile(
        self, exchange: Exchange, lane: tuple[Session, int], before: Before, turn: Evidence
    ) -> Meanwhile:
        usage, sent = exchange.usage, turn.sent
        last = self._lane(*lane)
        is_branch = last is not None and before is not last.before
        # A branch of its own lane may have come between, like any other conversation.
        others = self.passed.since(before.ended, exchange, None if is_branch else lane)
        shares = []
        for session, number in dict.fromkeys(one.lane for one in others[-8:]):
            other = self._lane(session, number)
            its = None if other is None else other.before
            if its is not None and its.sent.order is sent.order and sent.chars:
                share = parting(its.sent, sent).shared / sent.chars
                shares.append(round(share * (usage.prompt or 0)))
        reused = usage.reused or 0
        seen, read = (None, ()) if others else self.passed.known_since(exchange, before)
        return Meanwhile(
            others=len({one.lane for one in others}),
            alike=min(shares, key=lambda share: abs(share - reused), default=None),
            evaluated=sum(one.evaluated or 0 for one in others),
            restarted=self.passed.was_down(exchange.upstream, before.ended, exchange.wall)
            or (None if before.start is None else is_another(before.start, turn.profile.start)),
            emptied=self.passed.was_empty(
                exchange.upstream, before.ended, exchange.wall, before.tokens or 0
            ),
            moved=bool(before.upstream) and before.upstream != exchange.upstream,
            seen=seen,
            read=read,
        )


def is_another(start: str | None, now: str | None) -> bool:
    """Return whether two marks of a server's start (None if unknown) are of two starts."""
    return start is not None and now is not None and start != now


def _usage(exchange: Exchange, beliefs: Beliefs) -> Usage:
    """Return the usage of ``exchange``; a server that has reported reuse leaves out a 0 of it."""
    usage, sent = exchange.usage, exchange.sent
    if sent is None or sent.dialect is None or usage.prompt is None:
        return usage
    if exchange.outcome not in WHOLE:
        return usage
    return replace(usage, reused=0) if beliefs.find(REPORTS, (sent.dialect, "")) else usage


def _infer(beliefs: Beliefs, verdict: Verdict, turn: Evidence) -> None:
    usage, api, expected = turn.usage, turn.api, verdict.expected
    if usage.prompt is not None and usage.prompt > turn.longest:
        beliefs.saw_prompt(turn.sent.model, usage.prompt)
    if api is not None:
        # The whole turn before is expected, as it was counted, if this one extends it.
        appended = not usage.reused and expected is not None and expected.source == "measured"
        # A cut prompt has lost its start; a template that prints the time makes prompts differ.
        appended = appended and verdict.judgement is not Judgement.CUT and not turn.profile.clock
        appended = appended and (usage.prompt or 0) >= _ENOUGH
        beliefs.saw_reuse(api, usage.reused, appended=appended)
    if verdict.judgement is not Judgement.BREAK or verdict.reason not in _ORDERED:
        return
    order = order_of(turn)
    if order is not None:
        beliefs.saw(ORDER, order, (None, turn.sent.model))


def learn(beliefs: Beliefs, verdict: Verdict, turn: Evidence) -> None:
    """Learn from rendered prompts how far a memory can go back, and whether other prompts fit in.

    A checkpoint is proven only if nothing else can have taken the rest: its slot was this turn's
    alone, and was not emptied. A prompt of which the server went back to the exact token was not
    evicted.
    """
    proof, usage = turn.proof, turn.usage
    if proof is None or verdict.basis is not Basis.RENDERED or usage.reused is None:
        return
    # A prompt rendered for us may begin with a token more, or less, than the counted one.
    beside = proof.now - (usage.prompt or proof.now)
    further = proof.shared - beside - usage.reused
    is_close = _REWOUND < further <= _BEFORE_THE_END and proof.lost > 0
    kind = None
    if verdict.reason is Reason.EVICTED:
        if turn.meanwhile.others and not turn.meanwhile.restarted:
            beliefs.saw(TAKEN, True)
        return
    if abs(further) <= _REWOUND and proof.lost > _BEFORE_THE_END:
        kind = MemoryKind.REWINDABLE
    elif turn.meanwhile.alone and (is_close or verdict.reason is Reason.CHECKPOINT):
        kind = MemoryKind.CHECKPOINTED
    if kind is not None:
        beliefs.saw(MEMORY, kind, (None, turn.sent.model))


class Passed(Struct, frozen=True):
    """A finished turn."""

    lane: LaneOf  #: its lane
    upstream: str  #: URL of its upstream
    begun: float  #: seconds since the epoch
    ended: float  #: seconds since the epoch
    evaluated: int | None  #: tokens evaluated, if reported


class PassedTurns:
    """The last ``turns`` and looks, up to a maximum; the oldest go first."""

    def __init__(self) -> None:
        self.turns: deque[Passed] = deque(maxlen=_TURNS)
        self._looks: deque[Look] = deque(maxlen=_LOOKS)

    def looked(self, look: Look) -> None:
        """Record a look at the upstream."""
        self._looks.append(look)

    def since(self, ended: float, exchange: Exchange, lane: LaneOf | None) -> list[Passed]:
        """Return the turns of other lanes between ``ended`` and ``exchange``'s prefill."""
        begun = exchange.wall + (exchange.first_byte or exchange.seconds)
        return [
            turn
            for turn in self.turns
            if turn.upstream == exchange.upstream
            and turn.lane != lane
            and turn.ended > ended
            and turn.begun < begun
        ]

    def known_since(
        self, exchange: Exchange, before: Before
    ) -> tuple[Look | None, tuple[int, ...]]:
        """Return the last look at the server that may show whether ``exchange`` was alone there.

        The second value is the number of tokens that our turns evaluated since: first with the turn
        that was under way at the look, whose prompt may have been counted already, then without it.
        On a server with several slots the look has to show the slot of the turn ``before``; one
        slot is always the same. Work after that turn may have been counted before the look: then
        its slot has to be unchanged.
        """
        url = exchange.upstream
        for look in reversed(self._between(url, 0.0, exchange.wall)):
            since = [one for one in self.turns if one.upstream == url and one.ended > look.wall]
            under_way = [one for one in since if one.begun < look.wall]
            if len(under_way) > 1 or any(one.evaluated is None for one in since):
                continue
            is_there = slot_of(look, before.tokens, before.generated) is not None
            if is_there if look.wall > before.ended else len(look.slots) == 1:
                read = sum(one.evaluated or 0 for one in since)
                return look, (read, *(read - (one.evaluated or 0) for one in under_way))
        return None, ()

    def was_down(self, upstream: str, since: float, until: float) -> bool:
        """Return whether ``upstream``, a URL, was down at a look."""
        looks = self._between(upstream, since, until)
        return any(look.state is UpstreamState.DOWN for look in looks)

    def was_empty(self, upstream: str, since: float, until: float, tokens: int) -> bool:
        """Return whether a look found all slots idle, none with as much as ``tokens``."""
        return any(
            look.slots and not any(slot.busy or slot.used >= _HOLDS * tokens for slot in look.slots)
            for look in self._between(upstream, since, until)
        )

    def _between(self, upstream: str, since: float, until: float) -> list[Look]:
        return [look for look in self._looks if since < look.wall < until and look.url == upstream]
