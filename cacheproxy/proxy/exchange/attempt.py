"""A request on its way to one server: what is done to it for that server, until it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.placement.placing import NAME
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.route.route import asking_for
from cacheproxy.core.servers.prefill import Progress
from cacheproxy.proxy.exchange.adapting import Placed
from cacheproxy.proxy.exchange.normalizing import Normalizing, Unpacking
from cacheproxy.proxy.exchange.servers import Server, Servers
from cacheproxy.proxy.translation.translating import Translation
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.record.exchange import Exchange

_HEALS = 3
"""A template may refuse late messages, users in a row and long ids of calls, one at a time."""


@dataclass(frozen=True, slots=True)
class ExchangeContext:
    """What every exchange needs, put together once by tap."""

    servers: Servers  #: those that may be asked
    clock: Any  #: its ``seconds`` are monotonic
    unpacking: Unpacking  #: unpacks bodies
    normalizing: Normalizing  #: runs the rules
    store: Store  #: of conversations
    finished: Callable[[Exchange], None]  #: shows an Exchange to the observers
    judge: Callable[[], None]  #: has the verdicts reached on what was finished
    wall: Callable[[], float]  #: returns seconds since the epoch
    via: bytes  #: our own token in the Via header, by which a loop is seen
    probe: bytes  #: what marks a probe, which is nobody's conversation
    keep_bodies: bool = False  #: keep response bodies for the observers
    ping_after: float = 0.0
    """Seconds of silence after which a streaming client gets a ping; 0: never."""
    progressed: Callable[[Exchange, Progress | None, float | None], None] = lambda *_: None
    """Told of an exchange that runs how far the server is with its prompt, if it says, and after
    how many seconds; None: it is over."""


@dataclass(slots=True)
class Attempt:
    """One attempt to have a request answered by one server, whose steps ``record`` tells."""

    context: ExchangeContext  #: what every exchange needs
    server: Server  #: that is asked
    came: Request  #: the request as it came; it goes on so where nothing is edited
    prepared: Prepared  #: the request after rules and pins
    record: Exchange  #: of the exchange
    started: float  #: when its request had been read, by ``context.clock``
    counted: bytes | None = None  #: the whole answer, made here
    translated: Translation | None = None  #: None where it went as it is
    asked: int | None = None  #: where its reasoning is remembered

    def __post_init__(self) -> None:
        record = self.record
        if not self.server.edits:
            self.prepared = Prepared(record.received, turn=self.prepared.turn)
        record.reports = self.prepared.reports
        record.sent = record.edited_after = record.sent_after = None  # by another server
        if self.server.model:
            request, report = asking_for(self.prepared.request, self.server.model)
            self.prepared = self.prepared._replace(request=request)
            record.reports += () if report is None else (report,)

    async def send(self) -> UpstreamConnection | None:
        """Return the response once its head has come, None where ``counted`` is the answer.

        What goes wrong is raised.
        """
        context, server, record = self.context, self.server, self.record
        # 3. Earlier reasoning stays in it, where this upstream's template can keep it.
        request = await self._keep()
        # 4. Its late system messages go to where this upstream can take them.
        placed = await self._place(request)
        record.edited_after = context.clock.seconds() - self.started
        stamp = server.stamp.headers(record.received, self.prepared.session)
        heals = _HEALS
        while True:
            # 5. A count of tokens that the upstream does not know is answered here.
            self.counted = await server.translating.count(placed.request)
            if self.counted is not None:
                return None
            # 6. Where the upstream speaks Chat Completions alone, it is translated into that.
            translated = self.translated = await server.translating.translate(
                placed.request, context.store.spellings(record.session)
            )
            record.sent = sent = placed.request if translated is None else translated.sent
            # 7. It is sent; packed, if it came so and the upstream is not ours to edit for.
            record.sent_after = context.clock.seconds() - self.started
            goes = self.came if sent is record.received and not server.edits else sent
            response = await server.upstream.request(goes, via=b"1.1 " + context.via, also=stamp)
            # 8. It is sent once more, at most, after the upstream did not know the dialect,
            if translated is None and await server.translating.learns_from(
                response, placed.request
            ):
                placed = await self._place(request)
                continue
            # and after it refused what stands where in the messages: once for each such thing.
            if server.adapting is None:
                return response
            healed = await server.adapting.healed(placed, request, response, may_heal=heals > 0)
            if healed is None:
                return response
            placed, heals = self._take_placed(healed), heals - 1

    async def _keep(self) -> Request:
        """Return the request with the reasoning of earlier turns in it, where that is kept."""
        prepared, adapting = self.prepared, self.server.adapting
        if adapting is None or not prepared.request.body:
            return prepared.request
        begins = self.record.turn > 0  # then its answer is to be remembered
        kept = await adapting.keep(prepared.request, prepared.turn, begins=begins)
        if kept.report is not None:
            self.record.reports += (kept.report,)
        self.asked = kept.asked if begins else None
        return kept.request

    async def _place(self, request: Request) -> Placed:
        """Return ``request`` with its late system messages where the upstream can take them."""
        adapting = self.server.adapting
        if adapting is None:
            return Placed(request)
        return self._take_placed(await adapting.place(request))

    def _take_placed(self, placed: Placed) -> Placed:
        """Report what was placed last."""
        if placed.report is not None or placed.late:
            record = self.record
            others = tuple([report for report in record.reports if report.rule != NAME])
            record.reports = others if placed.report is None else (*others, placed.report)
        return placed
