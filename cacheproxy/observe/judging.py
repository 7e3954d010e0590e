"""The verdict on each turn, reached after its answer has gone down, in order.

If the requests alone do not show why a turn lost the cache, the upstream is asked to render its
prompt. If its answers do not report reuse, its counters are read. A session's exchanges wait for
this, so that observers get them in the order in which they finished.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Basis, Judgement
from cacheproxy.core.judge.evidence import Evidence, Proof
from cacheproxy.core.judge.judge import judge, wants_proof
from cacheproxy.core.kinds.belief import Beliefs
from cacheproxy.core.kinds.profile import MemoryKind
from cacheproxy.core.kinds.status import Look
from cacheproxy.core.prompt.request import messages_of
from cacheproxy.observe.verdicts import Verdicts, is_another, learn
from cacheproxy.record.exchange import Exchange

_log = Logger()
_THREAD_ABOVE = 128 << 10
"""Bytes to compare beyond which a verdict is reached in the thread. Below, the way there and back
costs more than the work."""
_MOST_MESSAGES = 4000
"""Messages beyond which a verdict is reached in the thread, too: each changed one costs 0.001
ms."""
_FREED_ABOVE = 4 << 20
"""Bytes of a body beyond which its parsed JSON is freed in the thread: that of 20 MB held the
reactor for 20 ms."""
_MOST_PENDING = 64
"""Exchanges of a session that may wait for an upstream's answer, at most."""


class KnownUpstream(Protocol):
    """An upstream as the judge sees it: our beliefs about it, and questions to it."""

    @property
    def beliefs(self) -> Beliefs:
        """Our beliefs about the upstream."""

    async def look(self) -> Look | None:
        """Return a look at the upstream as of now. Never raises."""

    async def prove(self, turn: Evidence) -> Proof | None:
        """Return the proof from the rendered prompts of a turn and the one before. Never raises."""

    async def counted(self, usage: Usage) -> int | None:
        """Return the last request's reused tokens, by the server's counters. Never raises."""

    async def started(self) -> str | None:
        """Return the mark of the server's start, another after a restart. Never raises."""


@dataclass(eq=False, slots=True)
class _Pending:
    """An exchange that waits: for its upstream's answer, or for those before it in its session."""

    exchange: Exchange  #: the waiting exchange
    is_ready: bool = False  #: whether it waits for no answer of its own
    asking: Deferred[None] | None = None  #: the pending questions to the upstream

    def give_up(self) -> None:
        if self.asking is not None:
            self.asking.cancel()


class Judging:
    """Adds the verdict, turn and side to finished exchanges, and delivers them.

    ``deliver`` is called on the reactor thread with all exchanges that are ready at the same time;
    each comes once, those of one session in the order they finished. ``store``: where conversations
    are remembered. ``known``: the upstreams by their URLs, set from outside. ``most_waiting``:
    bytes of bodies that may wait for the thread; beyond, exchanges go on without a verdict, unless
    none waits.
    """

    def __init__(
        self,
        reactor: Any,
        deliver: Callable[[Sequence[Exchange]], None],
        store: Store,
        collector: Collector | None = None,
    ) -> None:
        self.known: Mapping[str, KnownUpstream] = {}
        self.most_waiting = sys.maxsize
        self._reactor = reactor
        self._collector = collector or Collector()
        self._deliver = deliver
        self._ready_now: list[Exchange] = []
        self._verdicts = Verdicts(store)
        self.looked = self._verdicts.passed.looked
        self._pool = ThreadPool(0, 1, "cacheproxy-judging")
        self._waiting = 0
        self._number = 0
        self._pending: dict[Session | None, deque[_Pending]] = {}

    def start(self) -> None:
        """Start; the thread itself starts with the first exchange."""
        self._pool.start()

    def stop(self) -> None:
        """Finish the thread's waiting work, and stop. Blocks."""
        self._pool.stop()

    def settle(self) -> None:
        """Deliver all exchanges that wait for an upstream's answer, without it: the proxy stops."""
        for pending in [one for line in self._pending.values() for one in line]:
            pending.give_up()

    def __call__(self, exchanges: Iterable[Exchange]) -> None:
        """Take finished exchanges. Those without a prompt need no verdict."""
        for exchange in exchanges:
            self.judge(exchange)
        self.give_on()

    def give_on(self, most: int = sys.maxsize) -> bool:
        """Deliver ready exchanges, ``most`` of them; return whether there are more."""
        ready = self._ready_now
        if ready:
            self._ready_now = ready[most:]
            self._deliver(ready[:most])
        return bool(self._ready_now)

    def judge(self, exchange: Exchange) -> None:
        """Reach the verdict on ``exchange``, here or in the thread; ``give_on`` delivers it."""
        self._number += 1
        exchange.number, size = self._number, len(exchange.received.body)
        is_too_much = self._waiting and self._waiting + size > self.most_waiting
        if not exchange.turn or is_too_much:
            self._ready_now.append(exchange)
            return
        if not self._waiting:
            for one in (exchange.received, exchange.sent or exchange.received):
                if len(one.body) > _THREAD_ABOVE and (
                    not one.is_quick(_THREAD_ABOVE) or len(messages_of(one)[1]) > _MOST_MESSAGES
                ):
                    break
            else:  # small, or mostly known: the work grows with the new bytes
                self._take(exchange, self._judged(exchange))
                return
        self._waiting += size
        self._pool.callInThread(self._judge_in_thread, exchange, size)

    def _judge_in_thread(self, exchange: Exchange, size: int) -> None:
        with self._collector.paused():
            turn = self._judged(exchange)
            _ = exchange.model  # the last value that is needed of the body
            for one in (exchange.received, exchange.sent or exchange.received):
                if len(one.body) > _FREED_ABOVE:
                    one.forget()
        self._reactor.callFromThread(self._back, exchange, turn, size)

    def _back(self, exchange: Exchange, turn: Evidence | None, size: int) -> None:
        self._waiting -= size
        self._take(exchange, turn)
        self.give_on()

    def _judged(self, exchange: Exchange) -> Evidence | None:
        """Reach the verdict; return its evidence if the upstream has to be asked for more.

        Runs on one thread at a time: the reactor's waits while the other has work.
        """
        known = self.known.get(exchange.upstream)
        try:
            if known is None:
                self._verdicts.judge(exchange)
                return None
            beliefs = known.beliefs
            profile, changes = beliefs.profile, beliefs.changes
            turn = self._verdicts.judge(exchange, profile, beliefs)
            verdict = exchange.verdict
            if turn is None or verdict is None:
                return None
            if beliefs.changes != changes:  # by the turn itself
                profile = beliefs.profile
            exchange.profile = profile
            if turn.usage.reused is None and profile.counts_reuse:
                return turn
            is_break = verdict.judgement is Judgement.BREAK and turn.before is not None
            return turn if is_break and wants_proof(turn, verdict) else None
        except Exception as error:  # the record must not be lost for a comparison's sake
            _log.warn(
                "{whose}: a turn could not be judged: {kind}",
                whose=exchange.label,
                kind=type(error).__name__,
            )
            return None

    def _take(self, exchange: Exchange, turn: Evidence | None) -> None:
        """Queue ``exchange`` for delivery, after its questions and the exchanges before it."""
        known, profile = self.known.get(exchange.upstream), exchange.profile
        if known is not None and turn is not None and profile is not None:
            counts = turn.usage.reused is None and profile.counts_reuse
            pending = self._line_up(exchange, is_ready=False)
            pending.asking = Deferred.fromCoroutine(
                _ask(exchange, turn, known, self.looked, counts=counts)
            )
            pending.asking.addErrback(lambda _: None)
            pending.asking.addBoth(lambda _: self._ready(pending))
        elif self._pending:
            self._line_up(exchange)
        else:
            self._ready_now.append(exchange)

    def _line_up(self, exchange: Exchange, *, is_ready: bool = True) -> _Pending:
        """Queue ``exchange`` behind those of its session, if any wait or it is not ready itself."""
        key, pending = exchange.session, _Pending(exchange, is_ready)
        line = self._pending.get(key)
        if is_ready and not line:
            self._ready_now.append(exchange)
            return pending
        if line is None:
            line = self._pending[key] = deque()
        line.append(pending)
        if len(line) > _MOST_PENDING:
            line[0].give_up()
        return pending

    def _ready(self, pending: _Pending) -> None:
        pending.is_ready = True
        key = pending.exchange.session
        line = self._pending.get(key)
        while line and line[0].is_ready:
            self._ready_now.append(line.popleft().exchange)
        if not line:
            self._pending.pop(key, None)
        self.give_on()


async def _ask(
    exchange: Exchange,
    turn: Evidence,
    known: KnownUpstream,
    looked: Callable[[Look], None],
    *,
    counts: bool,
) -> None:
    """Ask the upstream for missing evidence, and judge again with its answers.

    ``looked`` is called with the slots' states, if these may show how its memory works.
    """
    if counts:
        reused = await known.counted(turn.usage)
        if reused is None:
            return
        exchange.usage = replace(turn.usage, reused=reused)
        turn = replace(turn, usage=exchange.usage)
        exchange.verdict = judge(turn)
    before = turn.before
    if before is None or exchange.verdict is None or not wants_proof(turn, exchange.verdict):
        return
    if is_another(before.start, await known.started()):
        turn = replace(turn, meanwhile=turn.meanwhile._replace(restarted=True))
        exchange.verdict = judge(turn)
        if exchange.verdict.basis is Basis.TOLD:
            return
    if turn.profile.memory.kind is MemoryKind.UNKNOWN and turn.profile.memory.slots:
        look = await known.look()
        if look is not None:
            looked(look)
            turn = replace(turn, meanwhile=turn.meanwhile.closed(before, turn.usage, look))
    proof = await known.prove(turn)
    if proof is not None:
        turn = replace(turn, proof=proof)
        exchange.verdict = judge(turn)
        learn(known.beliefs, exchange.verdict, turn)
