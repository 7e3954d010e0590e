"""The admission of requests to one server: each is sent at once, or waits for another one there.

``core/kinds/order.py`` decides; this module supplies its facts, and makes requests wait. A request
that is alone at its server is not examined, unless places are scarce there, or its conversation
begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from itertools import chain
from operator import attrgetter
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.judge.evidence import PARAMETERS
from cacheproxy.core.kinds.ask import Ask
from cacheproxy.core.kinds.belief import SHARES, TAKEN
from cacheproxy.core.kinds.known import kind_of
from cacheproxy.core.kinds.order import Busy, Order, Terms
from cacheproxy.core.kinds.profile import Profile, Shares
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder, reordered
from cacheproxy.core.route.facts import tokens_of
from cacheproxy.proxy.exchange.form import wants_stream
from cacheproxy.proxy.probing.profiling import Profiling

_log = Logger()
_SEGMENTS = attrgetter("segments")
_LOOKS = 0.05
"""Seconds between two looks at the line, while a request waits."""
_FRESH = 600.0
"""Seconds for which the server is assumed to have a head that it has read."""
_SURELY = 1.5
"""Factor of a prompt's expected seconds, after which it is taken to be read if its answer is not
streamed, so that no first token shows it."""
_LEAST = 256
"""Tokens of the shortest head that is examined: less than a block is not reused by servers."""
_AT_FIRST = 500.0
"""Prefill speed, tokens a second, assumed for a server whose heads move until a first token shows
it: the first crowd comes before any answer. It is low, since waiting while another prompt is being
read costs nothing."""
_MANY = 8
"""Requests under way at most beside which a request is examined only to learn from its reuse."""
_MOST_OF, _NEXT_TO_NOTHING = 0.5, 0.1
"""Shares of a head: reuse of at least the first proves sharing; of at most the second, none."""


class Admission:
    """The admission of requests to the server of ``profiling``, at ``url``.

    A request is represented by its ``Delivery``, typed Any: its module imports this one, by pool.

    ``speed`` returns the server's prefill in tokens a second, None if not known.
    ``most``: seconds that a request waits at most. ``knows``: the ``places`` of ``beliefs`` at
    which places were found not to be scarce; while that has another value, a request that is alone
    has to be admitted, too.
    """

    def __init__(
        self,
        clock: Any,
        url: str,
        profiling: Profiling,
        store: Store,
        *,
        speed: Callable[[str], float | None],
        most: float,
    ) -> None:
        self.knows = -1
        self.beliefs = profiling.beliefs
        self.under_way: Collection[Any] = ()
        self._clock, self._url, self._profiling, self._store = clock, url, profiling, store
        self._speed = speed
        self._order = Order(most)
        self._shown: float | None = None  # tokens a second until a first token, before any answer
        self._waiting: dict[Ask, tuple[Deferred[None], Any]] = {}  # with its delivery
        self._is_short = False  # whether the server has no room for all prompts under way
        self._looking = LoopingCall(self._look)
        self._looking.clock = clock
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._waiting)

    async def admit(self, delivery: Any, under_way: Collection[Any]) -> None:
        """Wait until the request of ``delivery`` may be sent; ``under_way``: those sent before."""
        if self._is_closed:
            return
        self.under_way = under_way
        record, now = delivery.record, self._clock.seconds()
        self._is_short = self._tokens(delivery) > self._room
        terms = self._terms()
        self.knows = self.beliefs.places if terms.places is None else -1
        has_slots = kind_of(self._profiling.profile).reuse.similarity
        if terms == Terms() and (has_slots or len(under_way) > _MANY):
            return  # there is nothing to wait for; slots do not share, and a few others teach it
        ask = delivery.ask = self._ask(delivery)
        working = self._working(now)
        if any(one.ask.head == ask.head for one in working) and ask.head is not None:
            ask.is_read = self._is_read(delivery, ask, moves=terms.moves)
        self._price(ask)
        self._go(self._order.comes(ask, working, terms, now))
        if ask not in self._order.line:
            return
        waiting: Deferred[None] = Deferred()
        self._waiting[ask] = waiting, delivery
        self._say(ask)
        if not self._looking.running:
            self._looking.start(_LOOKS, now=False)
        early = None
        if (after := delivery.head_after) is not None:
            early = self._clock.callLater(after, delivery.begin_early)
        try:
            await waiting
        finally:
            self._order.leaves(ask)
            self._waiting.pop(ask, None)
            record.queued = self._clock.seconds() - now
            if early is not None and early.active():
                early.cancel()

    def left(self, delivery: Any) -> None:
        """Take note that ``delivery``, which has an ``ask``, left; admit who waited for it."""
        tap = delivery.tap
        calls = tap.calls_tools if isinstance(tap, UsageReader) else None
        self._order.ended(delivery.ask, self._clock.seconds(), calls=calls)
        if self._waiting:
            self._look()

    def learn(self, delivery: Any) -> None:
        """Learn from the tokens that the answer reused whether heads are shared, places taken."""
        ask, usage, turn = delivery.ask, delivery.record.usage, delivery.turn
        if ask is None or usage.reused is None or not usage.prompt:
            return
        reuse = kind_of(self._profiling.profile).reuse
        if reuse.moves_heads:
            was_there = usage.reused >= _MOST_OF * ask.share * usage.prompt
            self._order.answered(ask, was_there=was_there)
        before = None if turn is None or turn.lane is None else turn.lane.before
        if ask.was_taken and before is not None and before.tokens:
            self.beliefs.saw(TAKEN, usage.reused < _MOST_OF * before.tokens)
        if ask.beside is None or reuse.similarity:  # what slots share is known
            return
        head, known = ask.share * usage.prompt, self._sharing
        if usage.reused >= _MOST_OF * head:
            # A head that serves others while it is read also serves them afterwards.
            found = ask.beside if known is not Shares.READING else known
        elif usage.reused > _NEXT_TO_NOTHING * head:
            return
        elif ask.beside is Shares.READ:
            found = Shares.NEVER
        else:
            found = Shares.READ if known is Shares.READING else known
        self.beliefs.saw(SHARES, found)
        if found is not known:
            _log.info(
                "{url}: the beginning of a prompt serves other requests {found}",
                url=self._url,
                found=found,
            )

    def close(self) -> None:
        """Admit all waiting requests, and every later one at once."""
        self._is_closed = True
        self._go(list(self._waiting))

    def _look(self) -> None:
        now = self._clock.seconds()
        for ask in self._order.line:
            self._price(ask)
        self._go(self._order.look(self._working(now), self._terms(), now))
        for ask in self._waiting:
            self._say(ask)
        if not self._waiting and self._looking.running:
            self._looking.stop()

    def _go(self, asks: list[Ask]) -> None:
        for ask in asks:
            if (waiting := self._waiting.pop(ask, None)) is not None:
                waiting[0].callback(None)

    def _say(self, ask: Ask) -> None:
        """Name on the record, and on pages, whose request ``ask`` waits for."""
        delivery, label = self._waiting[ask][1], ask.waits_for and ask.waits_for.label
        said = f"{label} and {ask.more} more" if label and ask.more else label or None
        if said != delivery.record.queued_for:
            delivery.record.queued_for = said
            delivery.progressed(None)

    @property
    def _sharing(self) -> Shares:
        kind = kind_of(self._profiling.profile)
        believed: Shares | None = None if kind.reuse.similarity else self.beliefs.find(SHARES)
        return believed or kind.reuse.shares

    def _terms(self) -> Terms:
        profile = self._profiling.profile
        kind, memory = kind_of(profile), profile.memory
        taken = self.beliefs.find(TAKEN)
        has_lost = memory.has_ram is False or (memory.has_ram is None and bool(taken))
        is_scarce = has_lost or (memory.has_ram is taken is None and self._is_short)
        return Terms(
            shares=self._sharing is Shares.READ and profile.reuses is not False,
            moves=kind.reuse.moves_heads and (memory.slots or 1) > 1 and not has_lost,
            places=memory.slots if is_scarce and kind.reuse.similarity else None,
            room=self._room if is_scarce else math.inf,
        )

    @property
    def _room(self) -> float:
        memory = self._profiling.profile.memory
        return memory.capacity or (memory.context or math.inf) * (memory.slots or 1)

    def _tokens(self, delivery: Any) -> float:
        """Return the tokens of the prompts of conversations under way, and of ``delivery``'s."""
        wall, lanes = delivery.record.wall, self._store.mains()
        before = [one.before for one in lanes if one.before is not None]
        tokens = sum(
            one.tokens or 0.0
            for one in before
            if one.upstream == self._url and wall - one.ended < _FRESH
        )
        turns = [one.turn for one in (*self.under_way, delivery) if one.turn is not None]
        return tokens + sum(
            tokens_of(turn) for turn in turns if turn.lane is None or turn.lane.before is None
        )

    def _ask(self, delivery: Any) -> Ask:
        record, turn, client = delivery.record, delivery.turn, delivery.client
        assert turn is not None
        assert record.session is not None
        ask = Ask(
            owner=delivery.owner_of(record.received),
            conversation=record.session,
            lane=0 if record.place is None else record.place.lane,
            root=turn.root,
            names_agents=client is not None and client.names_agents,
            label=record.session.label,
        )
        if turn.lane is not None and turn.lane.before is not None:
            ask.pause = max(0.0, record.wall - turn.lane.before.ended)
        prompt = turn.prompt
        if prompt is not None and prompt.chars:
            head = _head_of(prompt, self._profiling.profile)
            body = record.received.json or {}
            others = repr([(name, body[name]) for name in PARAMETERS if name in body])
            chars = sum(len(segment.text) for segments in head[1:] for segment in segments)
            ask.tokens, ask.share = tokens_of(turn), chars / prompt.chars
            if ask.share * ask.tokens >= _LEAST:
                ask.head = head, others, record.received.path
            self._price(ask)
        return ask

    def _price(self, ask: Ask) -> None:
        """Say what its prompt takes, by the speed that is known by now."""
        reads = self._speed(self._url)
        if reads is None and kind_of(self._profiling.profile).reuse.moves_heads:
            reads = self._shown or _AT_FIRST
        if reads and ask.tokens:
            ask.seconds = ask.tokens / reads
            is_there = ask.head is None or ask.is_read
            ask.head_seconds = None if is_there else ask.share * ask.seconds

    def _working(self, now: float) -> list[Busy]:
        """Return the requests under way whose prompts the server evaluates."""
        reads = self._speed(self._url)
        found = []
        for one in self.under_way:
            if one.turn is None or not one.record.turn:
                continue
            ask = one.ask = one.ask or self._ask(one)
            progress, left, relay = one.record.progress, ask.seconds, one.relay
            is_whole = not wants_stream(one.record.received)
            begun = None if relay is None else relay.first_byte
            if begun is not None:
                left = 0.0
                took = one.seconds_sent + begun - now
                if ask.head_seconds and not (ask.has_copy or is_whole) and took > 0:
                    self._shown = ask.tokens / took  # all of it was read
            elif progress is not None and reads:
                left = (progress.total - progress.done) / reads
            elif left is not None:
                left -= one.seconds_sent
            is_past = is_whole and left is not None and left < (1 - _SURELY) * (ask.seconds or 0.0)
            said = 0.0 if begun is None else now - begun
            if is_whole and ask.seconds is not None:
                to_read = ask.seconds * (1 - ask.share if ask.has_copy else 1)
                said = max(0.0, one.seconds_sent - to_read)
            left = None if left is None else max(0.0, left)
            found.append(Busy(ask, one.waits and not is_past, not is_whole, left, said))
        return found

    def _is_read(self, delivery: Any, ask: Ask, *, moves: bool) -> bool:
        """Whether the server already has the head: an answer with it has ended here lately.

        Where heads move, only a conversation's own is sure to be there: one with more behind it.
        """
        turn, profile, wall = delivery.turn, self._profiling.profile, delivery.record.wall
        lanes = [] if moves else self._store.mains()
        if turn is not None and turn.lane is not None and not (moves and ask.share >= _MOST_OF):
            lanes.append(turn.lane)
        for lane in lanes:
            before = lane.before
            if before is None or before.upstream != self._url or wall - before.ended > _FRESH:
                continue
            if before.start is not None and profile.start not in (None, before.start):
                continue  # another process since
            if (turn is not None and lane is turn.lane) or (
                _head_of(before.sent, profile) == ask.head[0]
                and delivery.owner_of(lane.request) == ask.owner
            ):
                return True
        return False


def _head_of(prompt: Prompt, profile: Profile) -> tuple[Any, ...]:
    """Return the parts of a prompt before its first message: model, tools, system text.

    They are compared byte by byte: two heads that differ in their last byte do not count as shared.
    """
    if profile.order is PromptOrder.HOISTED:
        prompt = reordered(prompt, PromptOrder.HOISTED)
    tools = () if profile.tools_last else prompt.made.tool_piece.segments
    system = () if profile.system_last else chain.from_iterable(map(_SEGMENTS, prompt.head))
    return prompt.model, tools, tuple(system)
