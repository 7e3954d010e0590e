"""One request and its answer: ``_relay`` has all steps in order, ``Attempt`` those of a server."""

from __future__ import annotations

from functools import partial, reduce

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, ConnectionAborted, DNSLookupError
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.adapt.overflow import OverflowAnswer, overflow_answer
from cacheproxy.core.adapt.refusal import ErrorReader, words
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.conversation.usage import UsageReader
from cacheproxy.core.dialects.dialect import Purpose
from cacheproxy.core.dialects.dialects import endpoint_of, spoken
from cacheproxy.core.dialects.errors import as_json, is_overflow, said
from cacheproxy.core.dialects.stream import COMMENT
from cacheproxy.core.http1.content_coding import CodingError, codings_of, decoded
from cacheproxy.core.http1.ending import ending_of
from cacheproxy.core.http1.headers import FOR_PAGES, PROBE, end_to_end
from cacheproxy.core.http1.reshape import (
    AsStream,
    AsWhole,
    Chain,
    EachEvent,
    Ended,
    Gathered,
    Recognised,
    SaidError,
    Transform,
    Unpacked,
)
from cacheproxy.core.http1.response_reader import ResponseError, ResponseHead
from cacheproxy.core.prompt.client import Client, client_of, heeds_comments
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.servers.prefill import PrefillReader, Progress
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.attempt import Attempt, ExchangeContext
from cacheproxy.proxy.exchange.holding import FINAL, Held
from cacheproxy.proxy.exchange.listener import Listener
from cacheproxy.proxy.exchange.relay import EVENTS, JSON, Blanks, Pings, Relay, takes_pings
from cacheproxy.proxy.exchange.servers import Chosen, Server
from cacheproxy.proxy.translation.translating import Translation, is_stream
from cacheproxy.proxy.upstream.connection import UpstreamConnection, collect
from cacheproxy.proxy.upstream.failures import explain, is_ours
from cacheproxy.record.exchange import A_PAGE, Exchange, Outcome
from cacheproxy.translate.answer import WholeAnswer
from cacheproxy.translate.reading import NoTranslationError, TranslationError

_log = Logger()
_EARLY: Headers = ((b"Content-Type", EVENTS), (b"Cache-Control", b"no-cache"))
_OF_THE_BODY = frozenset({b"content-type", b"content-length", b"content-encoding"})
_LENGTH = frozenset({b"content-length"})
_IN_WORDS = (Purpose.CHAT, Purpose.TEXT)
"""What requests are for whose answers have words, or calls."""
_NO_WORDS = "its answer is an error without a message"
_MOST_TRANSLATED = 64 << 20
"""Bytes of an unstreamed answer that are held to be translated."""


def begin(context: ExchangeContext, down: ProxyRequest) -> int:
    """Relay ``down``; return what a Resource's render does."""
    exchange = _Running(context, down)
    done = Deferred.fromCoroutine(exchange.run())
    down.on_gone = partial(exchange.client_left, done)
    done.addErrback(lambda failure: _log.failure("an observer failed", failure))
    return NOT_DONE_YET


class _Running:
    """One exchange under way, which fills in its record."""

    __slots__ = (
        *("attempt", "came", "chosen", "context", "down", "gone", "is_probe", "listener", "pings"),
        *("prepared", "record", "relay", "reply", "server", "started", "tap", "unable"),
    )

    def __init__(self, context: ExchangeContext, down: ProxyRequest) -> None:
        self.context = context  #: what every exchange needs
        self.down = down  #: the client's request, and where its answer goes
        self.started: float = context.clock.seconds()
        """When it had been read, by ``context.clock``."""
        self.is_probe = context.probe in down.values(PROBE)  #: whether it is one of doctor's
        method, target = down.method.decode("latin-1"), down.uri.decode("latin-1")
        wall, memo = context.wall(), context.normalizing.memo
        came = Request(method, target, down.headers, down.body, memo, "", down.channel.peer)
        self.came = context.normalizing.plan.clients.introduce(came)  #: as it came
        self.record = Exchange(self.came, wall, bytes_down=0, outcome=Outcome.COMPLETE)
        self.server = context.servers.first  #: the last that was asked, else the first there is
        self.attempt: Attempt | None = None  #: the last to have it answered
        self.chosen: Chosen | None = None  #: the servers that may answer it
        self.reply = b""  #: an answer of our own making, or translated as a whole
        self.tap: UsageReader | ErrorReader | None = None  #: reads along
        self.relay: Relay | None = None  #: of the body that goes down
        self.unable: tuple[Server, ...] = ()  #: those of ``chosen`` that do not serve its API
        self.gone: Failure | None = None  #: how the client left
        self.prepared: Prepared | None = None  #: the request after rules and pins
        self.listener: Listener | None = None  #: hears the answer
        self.pings: Pings | None = None  #: of a stream that began before the upstream's answer

    async def run(self) -> None:
        """Relay; then show the record to the observers, however it went."""
        try:
            await self._relay()
        except Exception:
            self._failed(Failure())
        if self.chosen is not None:
            self.server.health.waiting -= 1
            self.server.under_way.discard(self)
        self.context.progressed(self.record, None, None)
        if self.pings is not None:
            self.pings.stop()
        relay, self.relay, self.pings = self.relay, None, None  # else each would keep the other
        self._take_answer(relay)
        if not self.is_probe:  # else it is nobody's conversation
            self._take_end()
            self.context.finished(self.record)

    def client_left(self, done: Deferred[None], failure: Failure) -> None:
        """Cancel whatever is being waited for: the upstream closes, unless it is held for a retry.

        That is so in every phase before the first byte of the answer.
        """
        self.gone = failure
        held = self._hold()
        done.cancel()
        if held is not None:
            held.show(self.record.progress)

    @property
    def session(self) -> Session | None:
        """The first of the conversations that begin as its own."""
        return None if self.record.session is None else self.record.session.first

    @property
    def waits(self) -> bool:
        """Whether its client still waits for the first token."""
        has_none = self.relay is None or self.relay.first_byte is None
        return has_none and self.gone is None and self._takes_a_slot

    # The way up and down.

    async def _relay(self) -> None:
        """Take the request up and the answer down. What goes wrong is raised."""
        context, down, record = self.context, self.down, self.record
        context.judge()  # it may be the next turn of what has just been answered
        # 1. It is unpacked; the rules edit it, and it is found out whose conversation it is.
        is_packed = b"content-encoding" in self.came.by_name
        preparing = context.unpacking.in_turn(self._prepare) if is_packed else self._prepare()
        prepared = self.prepared = await preparing
        if prepared.turn is not None and not self.is_probe:  # else it is no turn
            self._begin(prepared.turn, prepared.request)
        # 2. It is sent, to a server that is chosen, as that can take it; or it is there already.
        held = self._held(prepared) if context.holding.held else None
        attempt, response = await (self._send(prepared) if held is None else self._join(held))
        if response is None:
            self._answer(200, attempt.counted or b"")
            return
        translated = attempt.translated
        # 8. Its answer's head goes down,
        self._take_head(response.head, is_translated=translated is not None)
        streams = is_stream(response.head)
        status, through = response.head.status, None
        if down.started and not 200 <= status < 300:
            await self._refuse_late(response)
            return
        overflow = None
        if attempt.refusal is not None and translated is None and (api := record.received.dialect):
            overflow = overflow_answer(attempt.refusal, api, streams=self._wants_stream)
        if overflow is not None:
            await self._say_overflow(overflow, response)
            return
        is_other = status == 200 and held is not None and self._asks_otherwise(attempt)
        if is_other and self._wants_stream and not _wants_stream(attempt.asked_for):
            self._begin_head()
        if down.started or is_other:
            through = self._reshaping(response.head, translated, is_other=is_other)
        elif translated is not None:
            if not streams:
                self._translate(translated, await collect(response, _MOST_TRANSLATED))
                return
            through = translated.stream()
        if not down.started:
            down.send_head(status, response.head.reason, record.response_headers)
        # 9. and its body, as it comes.
        is_whole = is_other and not self._wants_stream
        relay = self.relay = Relay(
            down,
            response,
            context.clock,
            tap=self.tap,
            through=through,
            pings=self.pings
            or (self._pings(response.head, is_whole) if response.head.length is None else None),
            defers=self.pings is not None,
            keep=context.keep_bodies,
            listener=self._listen(),
            prefill=PrefillReader(hides=attempt.hides) if streams or down.started else None,
            progressed=self._progressed,
        )
        ending = relay.start()
        if not (response.goes_on and relay.bytes_down):  # else it went with the body's first bytes
            down.flush()
        await ending

    async def _say_overflow(self, answer: OverflowAnswer, response: UpstreamConnection) -> None:
        """Answer with the words on which the client compacts its conversation."""
        record, tap = self.record, self.tap
        body = await collect(response, _MOST_TRANSLATED)
        if tap is not None:
            tap.feed(body)
        status = record.status
        self._answer(answer.status, answer.body, record.response_headers, answer.content_type)
        record.status = status  # what the server said

    async def _prepare(self) -> Prepared:
        """Take the request through the rules, once its body is plain; raises CodingError."""
        self.record.received = await self.context.unpacking.plain(self.came)
        return await self.context.normalizing.prepare(self.record.received)

    def _begin(self, turn: Turn, request: Request) -> None:
        """Take note whose it is. ``request``: as the rules left it, as they see it next time."""
        self.record.session = turn.session
        if endpoint_of(request.path).purpose.evaluates:
            place = self.record.place = self.context.store.begin(turn, request)
            self.record.turn = place.turn
            self._progressed(None)

    async def _send(self, prepared: Prepared) -> tuple[Attempt, UpstreamConnection | None]:
        """Have it answered: by another server, once, where the first one does not take it.

        Those that do not serve its API are passed over. None: ``counted`` of the attempt is the
        answer. Nothing has gone down yet.
        """
        servers, record = self.context.servers, self.record
        chosen = self.chosen = servers.choose(prepared)
        record.route, record.was_at = chosen.route, chosen.was
        why: Exception | None = None
        head_after = self.context.head_after
        no_head = (head_after, self._begin_early) if head_after else None
        for place, server in enumerate(chosen.servers, start=1):
            after = next(iter(chosen.servers[place:]), None)
            attempt = Attempt(
                *(self.context, server, self.came, prepared, record), started=self.started
            )
            self.attempt, self.server = attempt, server
            server.health.waiting += 1
            server.under_way.add(self)
            if server.warming is not None and server.warming.is_on:
                server.warming.give_way()
            if self.context.holding.held and self._takes_a_slot:
                self.context.holding.make_way(server, record.session)
            try:
                response = await attempt.send(no_head)
            except NoTranslationError as error:
                self.unable += (server,)
                if after is None:
                    raise why or error from None
                servers.pass_over(chosen, server, after)
            except (ConnectError, DNSLookupError) as error:
                if self.gone is not None or is_ours(error):
                    raise
                server.refused()
                if why is not None or not servers.may_go_on(chosen, server, after, None):
                    raise
                why = error
            else:
                status = 0 if response is None else response.head.status
                is_last = why is not None or after is None
                if (
                    response is None
                    or is_last
                    or not servers.may_go_on(chosen, server, after, status)
                ):
                    turn = prepared.turn if status < 400 else None
                    if record.place is not None and turn is not None:
                        lane = turn.lane
                        if server.name or (lane is not None and lane.home is not None):
                            servers.settle(chosen, server, turn, record.place.lane)
                    return attempt, response
                server.health.doubt()  # it has no room for a request: perhaps it is not up
                response.abort()
                why = ResponseError(f"the upstream answered with status {status}")
            server.health.waiting -= 1
            server.under_way.discard(self)
        raise AssertionError("the last one returns or raises")

    # A client that leaves before its answer, and comes again.

    def _hold(self) -> Held | None:
        """Have the upstream request go on without its client, where the answer has not begun."""
        record, attempt, relay = self.record, self.attempt, self.relay
        prepared, holding = self.prepared, self.context.holding
        if not holding.seconds or holding.is_closed or not self.server.edits:
            return None  # whoever runs a remote server is paid for each token
        if self.gone is None or self.gone.check(ConnectionAborted):
            return None  # we have cut it off: the proxy stops, or the client reads too slowly
        if attempt is None or attempt.connection is None or not record.turn or self.is_probe:
            return None
        if relay is None:
            may_be = not attempt.connection.has_head
        else:
            may_be = record.status == 200 and relay.give_back()
        if not may_be or prepared is None:
            return None
        record.held = True
        return self._kept(attempt, prepared)

    def _kept(self, attempt: Attempt, prepared: Prepared) -> Held:
        record = self.record
        assert record.session is not None
        assert attempt.connection is not None
        return Held(
            *(self.context.holding, attempt.connection),
            attempt=attempt,
            server=self.server,
            record=record,
            request=prepared.request if self.server.edits else record.received,
            session=record.session,
            since=self.started - (record.joined or 0.0),
        )

    def _held(self, prepared: Prepared) -> Held | None:
        """Return the upstream request of which this is the retry, None if there is none."""
        record = self.record
        if not record.turn or record.session is None or self.is_probe:
            return None
        context = self.context
        owners, chosen = context.normalizing.plan.owners, context.servers.choose(prepared)
        return context.holding.joined(
            *(record.received, prepared.request, record.session, owners), chosen.servers
        )

    async def _join(self, held: Held) -> tuple[Attempt, UpstreamConnection]:
        """Go on with the request of a client that has left."""
        record, first = self.record, held.record
        attempt: Attempt = held.attempt
        self.attempt, self.server = attempt, held.server
        self.chosen = Chosen((held.server,), first.route, first.was_at)
        self.server.health.waiting += 1
        self.server.under_way.add(self)
        record.joined = self.context.clock.seconds() - held.since
        record.route, record.was_at = first.route, first.was_at
        record.sent, record.reports = first.sent, first.reports
        record.edited_after = record.sent_after = self._now()
        connection, head_after = attempt.connection, self.context.head_after
        assert connection is not None
        connection.no_head = (head_after, self._begin_early) if head_after else None
        response = await connection.again()
        turn = None if self.prepared is None else self.prepared.turn
        if self.server.name and turn is not None and record.place is not None:
            self.context.servers.settle(self.chosen, self.server, turn, record.place.lane)
        return attempt, response

    @property
    def _takes_a_slot(self) -> bool:
        """Whether it is nothing that a server says beside its prompts: a list, a count."""
        is_prompt = endpoint_of(self.came.path).purpose.evaluates
        return self.came.method == "POST" and is_prompt

    @property
    def _wants_stream(self) -> bool:
        return _wants_stream(self.record.received)

    def _asks_otherwise(self, attempt: Attempt) -> bool:
        """Whether the answer was asked for in another form than the client has it."""
        asked, received = attempt.asked_for, self.record.received
        options = ((one.json or {}).get("stream_options") for one in (asked, received))
        return _wants_stream(asked) != _wants_stream(received) or (
            _wants_stream(received) and next(options) != next(options)
        )

    def _reshaping(
        self, head: ResponseHead, translated: Translation | None, *, is_other: bool
    ) -> Transform:
        """Return what makes of an answer what the client asked for, or has the head of.

        ``is_other``: it was asked for in another form.
        """
        received, codings = self.record.received, codings_of(head.headers)
        dialect, asked = spoken(received.path), received.json or {}
        events: list[Transform] = []
        whole: list[Transform] = []
        if translated is not None:
            events.append(translated.stream())
            answer = partial(self._translated, translated, head.status)
            whole.append(Gathered(lambda body: answer(body).body))
        if self._wants_stream:
            whole.append(AsStream(dialect, asked))
            if is_other and dialect.unasked is not None:
                events.append(EachEvent(partial(dialect.unasked, asked)))
        else:
            events.append(AsWhole(dialect))
        steps: list[Transform] = [Unpacked(codings)] if codings else []
        steps.append(Recognised(_chained(events), _chained(whole)))
        ending = ending_of(received.path)
        if self.down.started and ending is not None:
            steps.append(Ended(ending))
        if not self.down.started:
            self._give_type(EVENTS if self._wants_stream else JSON)
        return reduce(Chain, steps)

    def _give_type(self, kind: bytes) -> None:
        """Have the head say what its body is now: plain, and of content type ``kind``."""
        record = self.record
        kept = [each for each in record.response_headers if each[0].lower() not in _OF_THE_BODY]
        record.response_headers = (*kept, (b"Content-Type", kind))

    # A stream that begins before the upstream's answer.

    def _begin_early(self) -> None:
        """Send a head, and signs of life from now on: no head has come for long."""
        down, record, client = self.down, self.record, self._client
        if self.gone is not None or down.started or not self._wants_stream:
            return
        if spoken(record.received.path).events is None:
            return
        if client is not None and client.waits_for_head:
            return
        self._begin_head()
        assert self.pings is not None
        self.pings.write()

    def _begin_head(self) -> None:
        """Send a head of our own: what goes wrong from now on is told in the stream."""
        self.record.status, self.record.response_headers = 200, _EARLY
        self.down.send_head(200, b"OK", _EARLY)
        self.pings = self._signs()

    async def _refuse_late(self, response: UpstreamConnection) -> None:
        """Say in the stream that has begun with which status the upstream answered.

        If the client sends the same again, it gets the answer itself: it would be no other.
        """
        tap, status, attempt = self.tap, response.head.status, self.attempt
        body = await collect(response, _MOST_TRANSLATED)
        if tap is not None:
            tap.feed(body)
        message = said(status, decoded(body, response.head.headers))
        self._end_early(status if status >= 400 else 502, message)
        if (
            status in FINAL
            and self.context.holding.seconds
            and self.record.turn
            and attempt
            and self.prepared
        ):
            response.take_back([body])
            self._kept(attempt, self.prepared)

    def _end_early(self, status: int, message: str) -> None:
        """End a stream that has but begun with an error."""
        assert self.pings is not None
        self.pings.stop()
        self.record.status = status
        client = self._client
        if client is not None and client.reads_messages and is_overflow(status, message):
            message = as_json(message)
        late = spoken(self.record.received.path).late_error
        self.down.write(late(status, message, self.pings.first != b""))
        self.down.finish()

    @property
    def _client(self) -> Client | None:
        """The client, as its package knows it."""
        record = self.record
        name = client_of(record.received) if record.session is None else record.session.client
        return self.context.normalizing.plan.clients.named(name)

    def _heeds(self) -> bool:
        """Whether comments are a sign of life to the client."""
        return heeds_comments(self.record.received, self._client)

    def _sign(self, first: bytes) -> bytes:
        """Return a sign of life in the answer that begins with ``first``."""
        dialect = spoken(self.record.received.path)
        is_early = not first and dialect.sign_waits and self._client is None
        return COMMENT if is_early or self._heeds() else dialect.sign(first)

    def _take_head(self, head: ResponseHead, *, is_translated: bool) -> None:
        record = self.record
        record.head_after = self.context.clock.seconds() - self.started
        record.status = head.status
        # A length beside chunked would contradict itself (RFC 9112, section 6.3).
        chunked = is_translated or head.values(b"transfer-encoding")
        also = _LENGTH if chunked else frozenset[bytes]()
        record.response_headers = end_to_end(head.headers, also, but=FOR_PAGES)
        if head.status >= 400:
            self.tap = ErrorReader(record.response_headers, self.server.upstream.keys)
        elif record.turn:
            # A translation sees the end by itself; what is framed has its end from there.
            tells_no_end = head.length is None and not chunked
            self.tap = UsageReader(
                head.content_type.decode("latin-1"),
                codings=codings_of(head.headers) if head.values(b"content-encoding") else (),
                ending=ending_of(record.received.path) if tells_no_end else None,
            )
        if self.down.started:
            record.response_headers = _EARLY

    def _pings(self, head: ResponseHead, is_whole: bool) -> Pings | None:
        """Return what keeps the client; ``is_whole``: it gets a stream as one JSON text."""
        context = self.context
        if not context.ping_after:
            return None
        if takes_pings(head) and not is_whole:
            return self._signs()
        if is_whole or (takes_pings(head, JSON) and self.record.turn):
            return Blanks(context.clock, context.ping_after, self.down.write)
        return None

    def _signs(self) -> Pings:
        context = self.context
        return Pings(context.clock, context.ping_after, self._sign, self.down.write, self._heeds)

    def _progressed(self, progress: Progress | None) -> None:
        """Tell that this runs, and how far the server is with the prompt, if it is at that."""
        if progress is not None:
            self.record.progress = progress
        if self.record.session is not None:
            self.context.progressed(self.record, progress, self._now())

    def _now(self) -> float:
        """Return the seconds since the request had been read."""
        return self.context.clock.seconds() - self.started  # type: ignore[no-any-return]

    # Answers of our own.

    def _translate(self, translation: Translation, body: bytes) -> None:
        """Answer with the whole ``body`` translated; raises ResponseError."""
        if self.tap is not None:
            self.tap.feed(body)
        record = self.record
        assert record.status is not None
        answer = self._translated(translation, record.status, body)
        if answer.status < 300 and (record.received.json or {}).get("stream") is True:
            raise ResponseError("the upstream gave a whole answer where a stream was asked for")
        self._answer(answer.status, answer.body, record.response_headers)

    @staticmethod
    def _translated(translation: Translation, status: int, body: bytes) -> WholeAnswer:
        try:
            return translation.answer(status, body)
        except TranslationError as error:
            raise ResponseError(str(error)) from None

    def _answer(
        self, status: int, body: bytes, headers: Headers = (), kind: bytes = b"application/json"
    ) -> None:
        """Answer with a body of our own making, of content type ``kind``."""
        record = self.record
        record.status, record.first_byte, record.bytes_down = status, self._now(), len(body)
        self.reply = body
        others = tuple((name, value) for name, value in headers if name.lower() not in _OF_THE_BODY)
        self.down.answer(status, body, (*others, (b"Content-Type", kind)))

    def _failed(self, failure: Failure) -> None:
        """Tell the client what went wrong, in its dialect, if it is still there to hear it."""
        down, record = self.down, self.record
        if self.gone is not None:
            record.outcome = Outcome.CLIENT_LEFT
            record.error = "cut off by the proxy" if self.gone.check(ConnectionAborted) else None
            return
        record.outcome = Outcome.UPSTREAM_FAILED
        if self.chosen is not None and not failure.check(TranslationError):
            self.server.health.doubt()
        status, message = explain(failure, self._where(failure))
        if status == 500:  # ours: what it says may quote the request
            _log.failure("an exchange failed", failure)
        if self.relay is not None and not self.relay.is_open:  # it has broken off the response
            record.error = message if status == 500 else failure.getErrorMessage()
            return
        if self.attempt is not None and self.attempt.connection is not None:
            self.attempt.connection.abort()
        if self.unable and not failure.check(NoTranslationError):
            message += f"; no Chat Completions at {Chosen(self.unable).where}"
        if not down.started:
            record.status = status
            down.refuse(status, message)
        elif self.pings is not None:
            is_said = isinstance(failure.value, SaidError)
            self._end_early(status, str(failure.value) if is_said else f"cacheproxy: {message}")
        else:
            down.channel.abort()
        record.error = message
        if failure.check(TranslationError, CodingError):
            record.outcome = Outcome.REFUSED

    def _where(self, failure: Failure) -> str:
        """Return which servers ``failure`` is about, for people."""
        chosen, unable, server = self.chosen, self.unable, self.server
        if failure.check(NoTranslationError):
            return Chosen(unable).where
        if chosen and (server in unable or failure.check(ConnectError, DNSLookupError)):
            return Chosen(tuple([one for one in chosen.servers if one not in unable])).where
        return server.upstream.url.text

    # The record.

    def _listen(self) -> Listener | None:
        """Have the answer heard, where it decides whose values may be put back later."""
        record, asked = self.record, self.attempt.asked if self.attempt else None
        place, session = record.place, record.session
        history = None if place is None else place.history
        decides = asked is not None or (history is not None and history.answers is not None)
        if not decides or record.status != 200 or session is None:
            return None
        context = self.context
        self.listener = Listener(context.clock, context.store, record, asked)
        return self.listener

    def _take_answer(self, relay: Relay | None) -> None:
        """Have the answer's reasoning remembered; take its figures, and its body if it is kept."""
        record = self.record
        body: bytes | None = self.reply or None
        if relay is not None:
            body = None if relay.kept is None else relay.kept.joined()
            record.bytes_down = relay.bytes_down
            if relay.first_byte is not None:
                record.first_byte = relay.first_byte - self.started
        if self.reply and record.status == 200:
            listener = self._listen()
            if listener is not None:
                listener.feed(self.reply)
        if self.listener is not None:
            is_whole = record.outcome is Outcome.COMPLETE and self.gone is None
            self.listener.close(is_whole=is_whole)
            self.listener = None
        if self.context.keep_bodies and not self._shows_key(body or b""):
            record.response_body = body

    def _shows_key(self, body: bytes) -> bool:
        """Whether an error's ``body`` repeats the key that we sent: it must not be recorded."""
        keys = self.server.upstream.keys if self.record.has_failed else ()
        plain = decoded(body, self.record.response_headers) if keys else body
        return any(key in plain for key in keys)

    def _take_failure(self, tap: UsageReader) -> None:
        """Record an answer that says that it failed, or that says nothing where it should."""
        record = self.record
        if tap.failure is not None:
            record.outcome = Outcome.UPSTREAM_FAILED
            asked = (record.received, record.sent or record.received)
            record.error = words(tap.failure, asked, self.server.upstream.keys) or _NO_WORDS
        elif tap.is_page:
            record.outcome, record.error = Outcome.UPSTREAM_FAILED, A_PAGE
        elif tap.says_nothing and _may_say(record.received):
            record.outcome = Outcome.EMPTY

    def _take_end(self) -> None:
        """Fill in what is known now that it is over."""
        record, tap = self.record, self.tap
        if isinstance(tap, UsageReader):
            if not record.held:  # else what opened the answer counts for who gets it
                record.usage = tap.close()
                if record.outcome is Outcome.COMPLETE:
                    self._take_failure(tap)
        elif tap is not None and record.outcome is Outcome.COMPLETE:
            record.error = tap.said(record.received, record.sent or record.received)
        if record.has_failed or record.sent is None:
            record.turn = 0
        record.upstream, record.server = self.server.upstream.url.text, self.server.name
        record.seconds = self.context.clock.seconds() - self.started


def _wants_stream(request: Request) -> bool:
    return (request.json or {}).get("stream") is True


def _chained(steps: list[Transform]) -> Transform | None:
    return reduce(Chain, steps) if steps else None


def _may_say(request: Request) -> bool:
    """Whether the answer to ``request`` should have something in it."""
    is_asked = endpoint_of(request.path).purpose in _IN_WORDS
    return is_asked and spoken(request.path).may_say(request.json or {})
