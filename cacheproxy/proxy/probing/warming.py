"""The warming of a restarted server: it reads the recent prompts again while it is idle.

A restarted llama-server has lost all prompts, and the next turn of each conversation would wait
until its whole prompt has been read. So the last prompts are sent again, and nothing is generated.
Clients' requests come first.

llama-server notices a closed connection once a second, and after a batch of 2,048 tokens. So that
no client waits that long, a prompt is read in pieces of 0.03 s, each by its own request; the last
tokens come with the request itself, as the client sent it. (Measured with llama.cpp of October
2026.)
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.core.conversation.lanes import Before, Lane
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.kinds.known import kind_called
from cacheproxy.core.kinds.status import Identity, Look, Slot, UpstreamState, identity_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.probing.asker import Asker
from cacheproxy.proxy.probing.poller import Health
from cacheproxy.proxy.probing.proving import Proving

_log = Logger()
_T = TypeVar("_T")
_RECENT = 900.0
"""Seconds for which a conversation counts as under way."""
_IDLE, _TICK = 2.0, 0.5
"""Seconds without a request after which the server is idle, and between two looks at that."""
_TIMES = 2
"""Number of restarts after which a conversation without a further turn is not warmed again."""
_FEW = 1024
"""Tokens below which a prompt is read so fast that warming is not worth it."""
_PIECE_SECONDS, _LONGER = 0.03, 1.25
"""Seconds of a piece at most; if even the shortest takes longer, its seconds times the second
number: each piece has fixed costs (two checkpoints, if the memory cannot rewind)."""
_LEAST, _MOST = 128, 2048
"""Tokens of a piece, at least and at most. A piece ends with a separate batch of four, for a
checkpoint; with fewer than 64 tokens before these, llama.cpp is ten times as slow on a CPU (October
2026). More than 2,048 are no single batch."""
_FIRST, _ALIKE, _AGAIN = 128, 32, 192
"""Tokens of the short prompts that show whether there is a RAM cache: see ``_keeps``."""
_SECONDS = 3600.0
"""Seconds for a prompt that cannot be sent in pieces, on a slow server."""
_WHY = "nothing is to be generated"


class ColdError(Exception):
    """The server fails on a request that it took before its restart."""


class Warming:
    """The warming of one upstream, by probes of ``asker`` and prompts rendered by ``proving``.

    ``health``: has the number of requests under way. ``store``: the conversations. ``is_on``:
    whether warming is pending, so that every request has to call ``give_way``. ``tokens``: number
    of tokens evaluated by warming in all.
    """

    def __init__(self, asker: Asker, proving: Proving, health: Health, store: Store) -> None:
        self.is_on = False
        self.tokens = 0
        self._asker, self._proving, self._health, self._store = asker, proving, health, store
        self._start: str | None = None
        self._who: Identity | None = None
        self._gone: set[str] = set()
        self._seen = 0.0  # when the restart was seen: for turns whose start is not recorded
        self._has_ram: bool | None = None  # whether there is a RAM cache, as tried since
        self._idle = 0
        self._conversations, self._seconds, self._logged = 0, 0.0, 0
        self._refused: dict[int, Before] = {}
        self._reached: tuple[Before, int] | None = None  # progress of a prompt that was interrupted
        self._working: Deferred[None] | None = None
        self._loop = LoopingCall(self._tick)
        self._loop.clock = asker.reactor

    def looked(self, look: Look) -> None:
        """Take note of a look at the server, after its profile did.

        The look's mark of the start shows every restart, even one between two looks. Servers that
        report none are not warmed.
        """
        if look.state is not UpstreamState.UP or look.start is None or not _page_of(look):
            return
        if look.start == self._start:
            return
        was, self._start = self._start, look.start
        self._has_ram = None
        self._who, is_other = identity_of(replace(look, start=None), self._who)
        if is_other:  # another build, or another model, even under the same name
            self._gone.clear()
            self._seen = 0.0
        elif was is not None:
            self._gone.add(was)
            self._seen = look.wall
            self._begin()

    def give_way(self) -> None:
        """Stop at once, for a client's request; go on when the server is idle again."""
        self._idle = 0
        if self._working is not None:
            self._working.cancel()

    def stop(self) -> None:
        """Stop, and forget pending work."""
        self.is_on = False
        self._gone.clear()
        self._seen = 0.0
        if self._loop.running:
            self._loop.stop()
        self.give_way()
        self._refused.clear()
        self._reached = None
        self._log_warmed()

    def _begin(self) -> None:
        self.is_on, self._idle = True, 0
        if not self._loop.running:
            self._loop.start(_TICK, now=False)

    def _tick(self) -> None:
        if self._working is not None:
            return
        self._idle = 0 if self._health.waiting else self._idle + 1
        if self._idle * _TICK >= _IDLE:
            self._working = working = Deferred.fromCoroutine(self._warm_all())
            working.addBoth(self._ended)

    def _ended(self, result: Any) -> None:
        self._working, self._idle = None, 0
        if isinstance(result, Failure) and not result.check(CancelledError):
            self.stop()  # a server that crashes by warming must not do so again and again
            _log.info("the server was not warmed again: {why}", why=type(result.value).__name__)
        elif not self._cold():
            self.stop()

    def _cold(self) -> list[Lane]:
        """Return the conversations to be read again, the latest first.

        They are no more than fit into the server's memory, with those read since the restart: one
        more would evict another. Without a RAM cache only the latest is read: most begin alike, and
        the next one would take its slot.
        """
        now, url = self._asker.wall(), self._asker.upstream.url.text
        turns = [
            (lane.before, lane)
            for lane in self._store.mains()
            if lane.before is not None
            and lane.before.upstream == url
            and lane.before.request is not None
            and now - lane.before.ended <= _RECENT
            and (lane.before.tokens or 0) >= _FEW
            and (lane.before.warmed < _TIMES or lane.before.start == self._start)
        ]
        turns.sort(key=lambda each: -each[0].ended)
        memory = self._proving.profile.memory
        room = memory.capacity or memory.context
        sums = accumulate(turn.tokens or 0 for turn, _ in turns)
        fitting = [
            each for each, used in zip(turns, sums, strict=True) if room is None or used <= room
        ]
        return [
            lane
            for turn, lane in fitting[: None if self._has_ram else 1]
            if (turn.start in self._gone or (turn.start is None and turn.ended < self._seen))
            and id(turn) not in self._refused
        ]

    async def _warm_all(self) -> None:
        cold, asker = self._cold(), self._asker
        if not cold:
            return
        look = await asker.look()
        is_other = look.start != self._start or look.state is not UpstreamState.UP
        if is_other or any(slot.busy for slot in look.slots):
            return  # the poller will report the change, or other clients use the server
        page, began = _page_of(look), asker.reactor.seconds()
        try:
            for lane in cold:
                turn = lane.before
                if turn is None or turn.request is None:
                    continue
                if await self._warm(turn, turn.request, page, look.slots):
                    self._store.warmed(lane, turn, look.start)
                    self._conversations += 1
                else:
                    self._refused[id(turn)] = turn
        finally:
            self._seconds += asker.reactor.seconds() - began

    def _log_warmed(self) -> None:
        """Log the conversations and tokens warmed since the restart, if any were."""
        count, tokens = self._conversations, self.tokens - self._logged
        if tokens:
            _log.info(
                "warmed {count} conversation{s}, {tokens:,} tokens in {seconds:.0f} s: "
                "{url} was restarted",
                count=count,
                s="" if count == 1 else "s",
                tokens=tokens,
                seconds=self._seconds,
                url=self._asker.upstream.url.text,
            )
        self._conversations, self._seconds, self._logged = 0, 0.0, self.tokens

    async def _warm(self, turn: Before, request: Request, page: str, slots: Sequence[Slot]) -> bool:
        """Make the server read the prompt of ``request``; return whether it did.

        Raises ColdError, and the failures of a connection.
        """
        last = await self._in_thread(lambda: unanswered(request))
        if last is None:
            return False
        tokens = await self._proving.tokens(request)
        if tokens is not None and len(tokens) == turn.tokens:  # else the rendering differs
            known, reached = self._reached or (None, 0)
            # An interrupted prompt goes on if it still is in a slot, or in RAM.
            held = [slot.used for slot in slots if reached <= slot.used <= reached + _MOST]
            begin = held[0] if held else reached if self._has_ram else 0
            begin = begin if known is turn else 0
            await self._read(turn, tokens, request, page, begin)
        status, answer = await self._asker.ask(last, _SECONDS)
        if status >= 500:
            raise ColdError(f"it answered with status {status}")
        self._count(usage_of(parsed(answer)).evaluated)
        return status == 200

    async def _read(
        self, turn: Before, tokens: array[int], request: Request, page: str, end: int
    ) -> None:
        """Make the server read ``tokens``, but for the last, from ``end`` on, in short pieces.

        A piece that is shorter than what the server already has would make it forget the rest.
        """
        asker = self._asker
        text, ends = await self._in_thread(lambda: _spelled(tokens))
        size, most, quickest = _LEAST, len(tokens) - _LEAST, math.inf
        if self._has_ram is None:
            self._has_ram = await self._keeps(tokens, request, page)
            end = _AGAIN
        while end < most:
            self._reached = turn, end
            end = min(end + size, most)
            began = asker.reactor.seconds()
            evaluated = await self._evaluated(text[: ends[end - 1]] + _REST, request, page)
            if evaluated is None:
                return  # the prompt is sent as a whole
            took = max(asker.reactor.seconds() - began, 0.001)
            # Deep in a prompt even the shortest piece may take longer.
            quickest = took if size == _LEAST else min(quickest, took)
            fitting = int(size * max(_PIECE_SECONDS, _LONGER * quickest) / took)
            size = max(_LEAST, min(2 * size, fitting, _MOST))

    async def _keeps(self, tokens: array[int], request: Request, page: str) -> bool:
        """Whether the server has a RAM cache for prompts that leave a slot; no page reports that.

        Three short prompts are read: the beginning of ``tokens``, another one that takes its slot,
        since a quarter is alike, and a longer beginning. The tokens evaluated of the last show it.
        """
        first = tokens[:_FIRST]
        other = first[:_ALIKE] + tokens[_FEW // 2 :][: _FIRST - _ALIKE]
        if other[: 2 * _ALIKE] == first[: 2 * _ALIKE]:
            return False
        evaluated: int | None = None
        for each in (first, other, tokens[:_AGAIN]):
            evaluated = await self._evaluated(_spelled(each)[0] + _REST, request, page)
        return evaluated is not None and evaluated <= _AGAIN - _FIRST + _ALIKE // 2

    async def _evaluated(self, body: bytes, request: Request, page: str) -> int | None:
        """Return the number of tokens that the server evaluates of ``body``, None if it refuses."""
        status, answer = await self._asker.post(page, body, _SECONDS, request)
        timings = (parsed(answer) or {}).get("timings")
        evaluated = timings.get("prompt_n") if isinstance(timings, dict) else None
        if status != 200 or type(evaluated) is not int:
            return None
        self._count(evaluated)
        return evaluated

    def _count(self, evaluated: int | None) -> None:
        self.tokens += evaluated or 0

    def _in_thread(self, work: Callable[[], _T]) -> Deferred[_T]:
        reactor = self._asker.reactor
        return deferToThreadPool(reactor, reactor.getThreadPool(), work)


def unanswered(request: Request) -> Request | None:
    """Return ``request`` edited to generate nothing, only to read its prompt; None if impossible.

    llama-server still samples one token, which it does not store with the prompt.
    """
    body, document, dialect = request.json, request.document, request.dialect
    if body is None or document is None or dialect is None or body.get("cache_prompt") is False:
        return None
    wanted = {**dialect.limited(body, 0), **dialect.unstored, "stream": False}
    edits = [Edit(f"/{name}", new, _WHY, adds=name not in body) for name, new in wanted.items()]
    return request.with_body(apply(document, edits))


_BEGINS = b'{"n_predict":0,"cache_prompt":true,"response_fields":["timings"],"prompt":['
_REST = b"]}"


def _spelled(tokens: Iterable[int]) -> tuple[bytes, list[int]]:
    """Return a request body with ``tokens``, without its last bytes, and each token's end in it."""
    words = [str(token) for token in tokens]
    ends = accumulate((len(word) + 1 for word in words), initial=len(_BEGINS) - 1)
    return _BEGINS + ",".join(words).encode(), list(ends)[1:]


def _page_of(look: Look) -> str:
    """Return the path of the page that reads a prompt given as tokens, "" for none."""
    return "" if look.server is None else kind_called(look.server.kind).serving.warms_at
