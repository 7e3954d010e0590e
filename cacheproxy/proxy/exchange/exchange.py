"""One request and its answer: ``_relay`` has all steps in order, ``Attempt`` those of a server."""

from __future__ import annotations

from dataclasses import dataclass, field

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, ConnectionAborted, DNSLookupError
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.conversation.usage import NOTHING
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.dialects.dialects import endpoint_of, spoken
from cacheproxy.core.http1.content_coding import CodingError, codings_of, decoded
from cacheproxy.core.http1.ending import ending_of
from cacheproxy.core.http1.headers import PROBE, for_client
from cacheproxy.core.http1.response_head import ResponseHead
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.placement.refusal import PlacementRefusal
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.servers.prefill import PrefillReader, Progress, RunningPrefill
from cacheproxy.proxy.downstream.errors import reason_of
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.attempt import Attempt
from cacheproxy.proxy.exchange.context import ExchangeContext
from cacheproxy.proxy.exchange.pings import Pings, takes_pings
from cacheproxy.proxy.exchange.relay import Relay
from cacheproxy.proxy.exchange.server import Server
from cacheproxy.proxy.exchange.servers import Chosen
from cacheproxy.proxy.translation.translating import Translation, is_stream
from cacheproxy.proxy.upstream.collect import collect
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.proxy.upstream.failures import explain, is_ours
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.translate.translation_error import NoTranslationError, TranslationError

_log = Logger()
_MOST_TRANSLATED = 64 << 20
"""Bytes of an unstreamed answer that are held to be translated."""


def begin(context: ExchangeContext, down: ProxyRequest) -> int:
    """Relay ``down``; return what a Resource's render does."""
    exchange = _Running(context, down)
    done = Deferred.fromCoroutine(exchange.run())
    down.on_gone(lambda failure: exchange.client_left(failure, done))
    done.addErrback(lambda failure: _log.failure("an observer failed", failure))
    return NOT_DONE_YET


@dataclass(slots=True)
class _Running:
    """One exchange under way: what its record will say, as far as it is known.

    Moments are of ``context.clock``.
    """

    context: ExchangeContext  #: what every exchange needs
    down: ProxyRequest  #: the client's request, and where its answer goes
    came: Request = field(init=False)  #: the request as it came
    received: Request = field(init=False)  #: the same with a plain body
    started: float = field(init=False)  #: when it had been read
    wall: float = field(init=False)  #: the same, in seconds since the epoch
    is_probe: bool = field(init=False)  #: whether it is one of doctor's
    attempt: Attempt = field(init=False)  #: the last to have it answered
    session: Session | None = None  #: whose it is
    turn: int = 0  #: see ``Exchange``
    place: Place | None = None  #: see ``Exchange``
    head_at: float | None = None  #: when the response's head came
    first_byte_at: float | None = None  #: when the first byte of its body came
    chosen: Chosen | None = None  #: the servers that may answer it
    status: int | None = None  #: as sent to the client
    response_headers: Headers = ()  #: as sent to the client
    reply: bytes = b""  #: an answer of our own making, or translated as a whole
    tap: UsageReader | PlacementRefusal | None = None  #: reads along
    relay: Relay | None = None  #: of the body that goes down
    unable: tuple[Server, ...] = ()  #: those of ``chosen`` that do not serve its API
    gone: Failure | None = None  #: how the client left

    def __post_init__(self) -> None:
        down, context = self.down, self.context
        self.started, self.wall = context.clock.seconds(), context.wall()
        self.is_probe = context.probe in down.header_values(PROBE)
        method, target = down.method.decode("latin-1"), down.uri.decode("latin-1")
        memo = context.normalizing.memo
        came = self.came = self.received = Request(method, target, down.headers, down.body, memo)
        self.attempt = Attempt(context, context.servers.first, came, came, Prepared(came))

    async def run(self) -> None:
        """Relay; then show the record to the observers, however it went."""
        outcome, error = Outcome.COMPLETE, None
        try:
            await self._relay()
        except Exception:
            outcome, error = self._failed(Failure())
        if self.chosen is not None:
            self.attempt.server.health.waiting -= 1
        self.context.progressed(id(self), None)
        relay, self.relay = self.relay, None  # else each would keep the other, and all bodies
        body = self._answered(relay)
        if not self.is_probe:  # else it is nobody's conversation
            self.context.finished(self._record(relay, body, outcome, error))

    def client_left(self, failure: Failure, done: Deferred[None]) -> None:
        """Cancel whatever is being waited for: the upstream closes in every phase."""
        self.gone = failure
        done.cancel()

    # The way up and down.

    async def _relay(self) -> None:
        """Take the request up and the answer down. What goes wrong is raised."""
        context, down = self.context, self.down
        # 1. It is unpacked; the rules edit it, and it is found out whose conversation it is.
        self.received, prepared = await context.prepare(self.came)
        if prepared.turn is not None and not self.is_probe:  # else it is no turn
            self._begin(prepared.turn, prepared.request)
        # 2. It is sent, to a server that is chosen, as that can take it.
        response = await self._send(prepared)
        attempt = self.attempt
        if response is None:
            self._answer(200, attempt.counted or b"")
            return
        translated = attempt.translated
        # 9. Its answer's head goes down,
        self._take_head(response.head, is_translated=translated is not None)
        through = None
        if translated is not None:
            if not is_stream(response.head):
                self._translate(translated, await collect(response, _MOST_TRANSLATED))
                return
            through = translated.stream()
        down.send_head(response.head.status, response.head.reason, self.response_headers)
        # 10. and its body, as it comes.
        relay = self.relay = Relay(
            down,
            response,
            context.clock,
            tap=self.tap,
            through=through,
            pings=self._pings(response.head),
            keep=context.keep_bodies or attempt.asked is not None,
            prefill=PrefillReader() if is_stream(response.head) else None,
            progressed=self._progressed,
        )
        relay.start()
        if not response.goes_on:  # else the head goes down with the body's first bytes
            down.flush()
        await relay.done

    def _begin(self, turn: Turn, request: Request) -> None:
        """Take note whose it is. ``request``: as the rules left it, as they see it next time."""
        self.session = turn.session
        if endpoint_of(request.path).purpose.evaluates:
            self.place = self.context.store.begin(turn, request)
            self.turn = self.place.turn
            self._progressed(None)

    async def _send(self, prepared: Prepared) -> UpstreamConnection | None:
        """Have it answered: by another server, once, where the first one does not take it.

        Those that do not serve its API are passed over. None: ``attempt.counted`` is the answer.
        Nothing has gone down yet.
        """
        servers = self.context.servers
        chosen = self.chosen = servers.choose(prepared)
        why: Exception | None = None
        for place, server in enumerate(chosen.servers, start=1):
            after = next(iter(chosen.servers[place:]), None)
            self.attempt = Attempt(
                self.context,
                server,
                self.came,
                self.received,
                prepared,
                self.session,
                begins=self.turn > 0,
            )
            server.health.waiting += 1
            try:
                response = await self.attempt.send()
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
                is_last = why is not None or not servers.may_go_on(chosen, server, after, status)
                if response is None or is_last:
                    if self.place is not None and prepared.turn is not None and status < 400:
                        servers.settle(chosen, server, prepared.turn, self.place.lane)
                    return response
                server.health.doubt()  # it has no room for a request: perhaps it is not up
                response.abort()
                why = ResponseError(f"the upstream answered with status {status}")
            server.health.waiting -= 1
        raise AssertionError("the last one returns or raises")

    def _take_head(self, head: ResponseHead, *, is_translated: bool) -> None:
        self.head_at = self.context.clock.seconds()
        self.status = head.status
        # A length beside chunked would contradict itself (RFC 9112, section 6.3).
        chunked = is_translated or head.values(b"transfer-encoding")
        self.response_headers = for_client(
            head.headers, frozenset({b"content-length"}) if chunked else frozenset()
        )
        if head.status >= 400:
            self.tap = PlacementRefusal(self.response_headers, self.attempt.server.upstream.keys)
        elif self.turn:
            # A translation sees the end by itself; what is framed has its end from there.
            tells_no_end = head.ends_with_connection and not is_translated
            self.tap = UsageReader(
                head.content_type.decode("latin-1"),
                codings=codings_of(head.headers),
                ending=ending_of(self.received.path) if tells_no_end else None,
            )

    def _pings(self, head: ResponseHead) -> Pings | None:
        context = self.context
        if not context.ping_after or not takes_pings(head):
            return None
        ping = spoken(self.received.path).ping
        return Pings(context.clock, context.ping_after, ping, self.down.write)

    def _progressed(self, progress: Progress | None) -> None:
        """Tell that this runs, and how far the server is with the prompt, if it is at that."""
        session, seconds = self.session, self.context.clock.seconds() - self.started
        if session is not None:
            running = (session.label, session.name, self.turn, progress, self.wall, seconds)
            self.context.progressed(id(self), RunningPrefill(*running))

    # Answers of our own.

    def _translate(self, translation: Translation, body: bytes) -> None:
        """Answer with the whole ``body`` translated; raises ResponseError."""
        if self.tap is not None:
            self.tap.feed(body)
        assert self.status is not None
        try:
            answer = translation.answer(self.status, body)
        except TranslationError as error:
            raise ResponseError(str(error)) from None
        if answer.status < 300 and (self.received.json or {}).get("stream") is True:
            raise ResponseError("the upstream gave a whole answer where a stream was asked for")
        self._answer(answer.status, answer.body, self.response_headers)

    def _answer(self, status: int, body: bytes, headers: Headers = ()) -> None:
        """Answer with a JSON body of our own making."""
        self.status, self.reply, self.first_byte_at = status, body, self.context.clock.seconds()
        others = tuple(
            (name, value)
            for name, value in headers
            if name.lower() not in (b"content-type", b"content-length")
        )
        kind = (b"Content-Type", b"application/json")
        length = (b"Content-Length", b"%d" % len(body))
        self.down.send_head(status, reason_of(status), (*others, kind, length))
        self.down.write(body)
        self.down.finish()

    def _failed(self, failure: Failure) -> tuple[Outcome, str | None]:
        """Tell the client what went wrong, in its dialect, if it is still there to hear it."""
        down = self.down
        if self.gone is not None:
            by_us = self.gone.check(ConnectionAborted)
            return Outcome.CLIENT_LEFT, "cut off by the proxy" if by_us else None
        if self.chosen is not None and not failure.check(TranslationError):
            self.attempt.server.health.doubt()
        if self.relay is not None:  # the relay has broken off the response
            return Outcome.UPSTREAM_FAILED, failure.getErrorMessage()
        status, message = explain(failure, self._where(failure))
        if self.unable and not failure.check(NoTranslationError):
            message += f"; no Chat Completions at {Chosen(self.unable).where}"
        if status == 500:
            _log.failure("an exchange failed", failure)
        if down.started:
            down.channel.abort()
        else:
            self.status = status
            down.write(down.answer(status, message))
            down.finish()
        refused = failure.check(TranslationError, CodingError) is not None
        return Outcome.REFUSED if refused else Outcome.UPSTREAM_FAILED, message

    def _where(self, failure: Failure) -> str:
        """Return which servers ``failure`` is about, for people."""
        chosen, unable, server = self.chosen, self.unable, self.attempt.server
        if failure.check(NoTranslationError):
            return Chosen(unable).where
        if chosen and (server in unable or failure.check(ConnectError, DNSLookupError)):
            return Chosen(tuple([one for one in chosen.servers if one not in unable])).where
        return server.upstream.url.text

    # The record.

    def _answered(self, relay: Relay | None) -> bytes | None:
        """Have the answer's reasoning remembered; return its body if that is recorded."""
        session, asked, keeping = self.session, self.attempt.asked, self.attempt.server.keeping
        body = relay.body if relay is not None else self.reply or None
        is_whole = self.status == 200 and (relay is None or relay.bytes_down == len(body or b""))
        if keeping is not None and session is not None and asked is not None and is_whole:
            dialect, headers = self.received.dialect, self.response_headers
            keeping.answered(session, asked, dialect, headers, body or b"")
        if not self.context.keep_bodies or self._shows_key(body or b""):
            return None
        return body

    def _shows_key(self, body: bytes) -> bool:
        """Whether an error's ``body`` repeats the key that we sent: it must not be recorded."""
        keys = self.attempt.server.upstream.keys if (self.status or 0) >= 400 else ()
        plain = decoded(body, self.response_headers) if keys else body
        return any(key in plain for key in keys)

    def _record(
        self, relay: Relay | None, body: bytes | None, outcome: Outcome, error: str | None
    ) -> Exchange:
        attempt, tap = self.attempt, self.tap
        if isinstance(tap, PlacementRefusal) and outcome is Outcome.COMPLETE:
            error = tap.said(self.received, attempt.sent or self.received)
        has_failed = self.status is not None and self.status >= 400
        first_byte_at, bytes_down = self.first_byte_at, len(self.reply)
        if relay is not None:
            first_byte_at, bytes_down = relay.first_byte, relay.bytes_down
        return Exchange(
            received=self.received,
            sent=attempt.sent,
            reports=attempt.reports,
            session=self.session,
            turn=0 if has_failed or attempt.sent is None else self.turn,
            upstream=attempt.server.upstream.url.text,
            status=self.status,
            outcome=outcome,
            usage=tap.close() if isinstance(tap, UsageReader) else NOTHING,
            wall=self.wall,
            first_byte=self._after(first_byte_at),
            seconds=self.context.clock.seconds() - self.started,
            bytes_down=bytes_down,
            error=error,
            edited_after=self._after(attempt.edited_at),
            sent_after=self._after(attempt.sent_at),
            head_after=self._after(self.head_at),
            response_headers=self.response_headers,
            response_body=body,
            place=self.place,
            server=attempt.server.name,
            route=self.chosen.route if self.chosen is not None else "",
            was_at=self.chosen.was if self.chosen is not None else "",
        )

    def _after(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.started
