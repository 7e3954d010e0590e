"""A request on its way to one server: adapted, translated, sent, and sent again if refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.adapt.refusal import STATUSES, read
from cacheproxy.core.adapt.thinking import NAME as THINKING
from cacheproxy.core.adapt.thinking import KeptNeed
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.proxy.exchange.holding import Holding
from cacheproxy.proxy.exchange.normalizing import Normalizing, Unpacking
from cacheproxy.proxy.exchange.pool import Server, Servers
from cacheproxy.proxy.translation.translating import Translation
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.record.exchange import Exchange

_PROBE_SECONDS = 30.0
"""Seconds for the answer to a probe: the server may be busy with another prompt."""


@dataclass(frozen=True, slots=True)
class ExchangeContext:
    """The parts that every exchange needs; ``tap`` puts them together once."""

    servers: Servers  #: the servers that may get requests
    clock: Any  #: clock whose ``seconds`` are monotonic
    unpacking: Unpacking  #: unpacks bodies
    normalizing: Normalizing  #: runs the rules
    store: Store  #: the conversations
    finished: Callable[[Exchange], None]  #: passes a finished Exchange to the observers
    judge: Callable[[], None]  #: computes the pending verdicts on finished exchanges
    wall: Callable[[], float]  #: returns seconds since the epoch
    via: bytes  #: the proxy's token in the Via header, by which a loop is detected
    probe: bytes  #: value of the header that marks doctor's requests: they are no conversation's
    holding: Holding  #: the answers whose client has left
    keep_bodies: bool = False  #: whether response bodies are retained for the observers
    ping_after: float = 0.0
    """Seconds of silence after which a streaming client gets a sign of life; 0: never."""
    head_after: float = 0.0
    """Seconds without a response head after which a streaming client gets ours; 0: never."""
    progressed: Callable[[Exchange, Progress | None, float | None], None] = lambda *_: None
    """Called with a running exchange, the server's progress in its prompt (None if not reported),
    and the seconds since it began (None: the exchange is over)."""


class Attempt:
    """One attempt to get the answer from ``server``; its steps are noted in ``record``.

    ``prepared``: the request after rules and pins.

    ``counted``: the whole answer, if the proxy computes it. ``translated``: None if the request
    went in its own API. ``thought_key``: key under which the answer's reasoning is remembered.
    ``strip_progress``: whether the stream has progress reports that the client did not ask for.
    ``original``: the client's request; ``request``: the same after the rules. ``connection``: the
    last one. ``refusal``: the response, if it is an error which has been read.
    """

    def __init__(
        self, context: ExchangeContext, server: Server, prepared: Prepared, record: Exchange
    ) -> None:
        self.connection: UpstreamConnection | None = None
        self.counted: bytes | None = None
        self.translated: Translation | None = None
        self.thought_key: int | None = None
        self.strip_progress = False
        self.refusal: Refusal | None = None
        self.original = record.received
        self._context, self._server, self._record = context, server, record
        self.request, self._reports = prepared.request, prepared.reports
        if not server.edits:
            self.request, self._reports = record.received, ()

    async def send(
        self,
        came: Request,
        turn: Turn | None,
        started: float,
        no_head: tuple[float, Callable[[], object]] | None,
    ) -> UpstreamConnection | None:
        """Return the response once its head has come, None if ``counted`` is the answer.

        ``came``: the request as the client sent it, which is forwarded if nothing is edited.
        ``turn``: its turn. ``started``: seconds of ``context.clock`` when it had been read.
        ``no_head``: see UpstreamConnection. Raises every failure.
        """
        context, server, record = self._context, self._server, self._record
        adapting, translating, upstream = server.adapting, server.translating, server.upstream
        begins = record.turn > 0
        asked: tuple[RuleReport, ...]
        # 3. The request is adapted to what is known of this server.
        adapted = await adapting.adapt(self.request, turn, begins=begins)
        record.edited_after = context.clock.seconds() - started
        stamp: Headers = ()
        if server.stamp.names:
            stamp = server.stamp.headers(record.received, None if turn is None else turn.session)
        while True:
            kept = adapted.needs.get(THINKING)
            self.thought_key = kept.thought_key if begins and isinstance(kept, KeptNeed) else None
            record.reports, asked = self._reports + adapted.reports, ()
            translated = self.translated = None
            if translating.is_needed:
                # 4. A count of tokens, if the upstream has none, is answered by the proxy.
                self.counted = await translating.count(adapted.request)
                if self.counted is not None:
                    return None
                # 5. If the upstream speaks only Chat Completions, the request is translated.
                spellings = context.store.spellings(record.session)
                translated = await translating.translate(adapted.request, spellings)
                self.translated = translated
            record.sent = sent = adapted.request if translated is None else translated.sent
            # 6. It is sent; still packed, if it came so and this upstream's are not edited.
            record.sent_after = context.clock.seconds() - started
            goes = came if sent is record.received and not server.edits else sent
            if server.profiling.progress and translated is None:
                goes, report = adapting.finish(goes)
                self.strip_progress = report is not None
                asked = () if report is None else (report,)
                record.reports += asked
            connection = upstream.connection(goes, via=b"1.1 " + context.via, also=stamp)
            self.connection, connection.no_head = connection, no_head
            response = await connection.start(upstream.endpoint)
            if self.strip_progress and response.head.values(b"content-encoding"):
                server.profiling.progress = ()  # a packed stream: progress cannot be stripped
            if response.head.status < 400:
                if adapted.taught:
                    adapting.answered(adapted)
                return response
            # 7. The request is sent once more, if the upstream did not know the dialect,
            if translated is None and await translating.learns_from(response, adapted.request):
                adapted = await adapting.adapt(self.request, turn, begins=begins)
                continue
            # or refused it in a way that an adaptation mends.
            healed = await adapting.heal(
                *(adapted, turn, response, self._ask), is_translated=translated is not None
            )
            if healed is None:
                self.refusal = adapted.refusal
                record.reports = self._reports + adapted.reports + asked
                return response
            adapted = healed

    async def _ask(self, request: Request) -> Refusal | None:
        """Send ``request``, a probe; return its refusal, None if the server took it.

        Raises the failure if the server did not judge it.
        """
        translating, asker = self._server.translating, self._server.asker
        if translating.is_needed:
            spellings = self._context.store.spellings()
            translated = await translating.translate(request, spellings)
            request = request if translated is None else translated.sent
        status, body = await asker.ask(request, _PROBE_SECONDS)
        if status >= 400 and status not in STATUSES:  # busy, for one: the probe was not judged
            raise ResponseError(f"the upstream answered with status {status}")
        return read(status, body) if status >= 400 else None
