"""The response body on its way down, and signs of life for a client that waits for it."""

from __future__ import annotations

import re
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from cacheproxy.core.adapt.refusal import ErrorReader
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.dialects.stream import CUT
from cacheproxy.core.http1.buffer import Pieces
from cacheproxy.core.http1.reshape import Transform
from cacheproxy.core.http1.response_reader import ResponseError, ResponseHead
from cacheproxy.core.kinds.prefill import PrefillReader, Progress
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.listener import Listener
from cacheproxy.proxy.transport.deadline import Deadline
from cacheproxy.proxy.upstream.connection import WHOLE, UpstreamConnection

_FLUSH_SECONDS = 10.0
"""How long a client may take to read what had come before its answer broke off."""
_MOST_KEPT = 64 << 20
_MOST_BEFORE = 4 << 20
"""Bytes from the upstream that are kept for a retry while none of the answer has gone down."""
# How bytes end after an empty line, if lines may end with CR LF, LF or CR (section 9.2.5). Not
# LF CR: another LF may belong to it.
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r\n", b"\r\r")
_LONGEST_END = max(map(len, _EVENT_ENDS))
_COMMENTS = re.compile(rb"(?:(?::[^\r\n]*)?(?:\r\n?|\n))*")
_LOOKED_AT = 4096
"""Bytes of an answer's beginning that tell what a sign of life has to name."""
EVENTS, JSON = b"text/event-stream", b"application/json"


def takes_pings(head: ResponseHead, kind: bytes = EVENTS) -> bool:
    """Whether the response is of content type ``kind``, and bytes can be put into it.

    They cannot where it is encoded, nor where its length is announced.
    """
    return (
        head.length is None
        and head.status == 200
        and head.content_type.partition(b";")[0].strip() == kind
        and not head.values(b"content-encoding")
    )


class Pings(Deadline):
    """Writes a ``sign`` of life whenever none went down for ``after`` seconds, between events.

    llama.cpp answers a streaming request with 200 at once and evaluates the prompt then. Agents
    and what stands between give up after some minutes of silence and send the request again,
    which begins a second full prefill. A client that does not read (``hold``) needs none.

    ``first``: the first bytes of the answer, b"" before there are any. ``sign`` makes one from
    them. Comments of the upstream are no sign of life to most clients; ``heeds`` says whether they
    are.
    """

    def __init__(
        self,
        clock: IReactorTime,
        after: float,
        sign: Callable[[bytes], bytes],
        write: Callable[[bytes], object],
        heeds: Callable[[], bool] = bool,
    ) -> None:
        super().__init__(clock, self._quiet, after)
        self._sign = sign
        self._write = write
        self._heeds = heeds
        self.first = b""
        self._end = b"\n\n"  # before the first event is a good place, too

    def sent(self, data: bytes, *, begun: bool = True) -> None:
        """Take note of bytes that went down; not ``begun``: before the answer itself."""
        says_nothing = data[:1] == b":" and self._is_comments(data)
        if not (self.first or says_nothing):  # an empty first chunk names the answer, too
            self.first = data[:_LOOKED_AT]
        if (begun and not says_nothing) or self._heeds():
            self.heard()
        if len(data) < _LONGEST_END:
            data = self._end + data
        self._end = data[-_LONGEST_END:]

    def write(self) -> None:
        """Write a sign now."""
        self.heard()
        self._write(self._sign(self.first))

    def _is_comments(self, data: bytes) -> bool:
        return self._end.endswith(_EVENT_ENDS) and _COMMENTS.fullmatch(data) is not None

    @property
    def may_write(self) -> bool:
        """Whether it is between two events."""
        return self._end.endswith(_EVENT_ENDS)

    def _quiet(self) -> None:
        # Within an event nothing is set: the bytes that end it do so.
        if self.may_write:
            self.write()


class Blanks(Pings):
    """The same before a JSON body, which may begin with blanks (RFC 8259, section 2)."""

    def __init__(self, clock: IReactorTime, after: float, write: Callable[[bytes], object]) -> None:
        super().__init__(clock, after, lambda _: b" ", write)

    def sent(self, data: bytes, *, begun: bool = True) -> None:  # noqa: ARG002
        """The body begins: nothing may come in between."""
        self.stop()


@implementer(IPushProducer)
class Relay(Protocol):
    """Writes chunks down as they come, unchanged and unbuffered; a tap reads a copy.

    Unchanged unless they go ``through`` a translation, which says the same in the client's dialect.

    ``defers``: the head is ours, and a stream in which an error can be told: where the body breaks
    off before its answer has begun, that is left to whoever is told.

    ``kept``: the body as far as it came, if it was to be kept; at most 64 MiB of it. ``listener``:
    hears what goes down.
    ``first_byte`` is when the answer began: ``prefill`` tells it from signs of life. Until then
    ``progressed`` is called with what it tells of the prompt, and with None when that is over.

    ``begins`` is called before the first byte of the answer goes down; None: it stays a retry's.
    Until then the relay may be detached, and somebody else be given the body from its beginning.

    It reads the body itself. The client's pauses pause the upstream; while the upstream is silent,
    pings go down between its events, which count for nothing.
    """

    def __init__(
        self,
        request: ProxyRequest,
        connection: UpstreamConnection,
        clock: IReactorTime,
        *,
        tap: UsageReader | ErrorReader | None = None,
        through: Transform | None = None,
        pings: Pings | None = None,
        defers: bool = False,
        keep: bool = False,
        listener: Listener | None = None,
        prefill: PrefillReader | None = None,
        progressed: Callable[[Progress | None], None] = lambda _: None,
        begins: Callable[[], object] | None = None,
    ) -> None:
        self.bytes_down = 0
        self.first_byte: float | None = None
        self._request = request
        self._connection = connection
        self._tap = tap
        self._clock = clock
        self._through = through
        self._pings = pings
        self._prefill = prefill
        self._progress: Progress | None = None
        self._begins, self._left = begins, _MOST_BEFORE
        self._ending: Deferred[None] | None = None
        self._progressed = progressed
        self._over = False
        self._defers = defers
        self.is_open = False
        """Whether the answer has broken off before it began, and the client waits to be told."""
        self.kept = Pieces() if keep else None
        self._listener = listener

    def start(self) -> Deferred[None]:
        """Have the body delivered; let the client's pauses pause the upstream.

        Fires with None when the body was whole, and errbacks when it was not; then the downstream
        connection closes without a terminator, so that the client cannot take a part for the whole.
        Cancelling closes the upstream.
        """
        ending: Deferred[None] = Deferred(self._unwanted)
        self._ending = ending
        if self._pings is not None:
            self._pings.heard()
        self._request.channel.producer = self
        self._connection.deliverBody(self)
        return ending

    def makeConnection(self, transport: object) -> None:  # noqa: N802 - Twisted's name
        """Do nothing: the connection is known."""

    def dataReceived(self, data: bytes) -> None:
        """Pass a chunk on. What is raised closes the upstream."""
        if self._over:
            return
        came = len(data)
        try:
            if self.first_byte is None:
                if self._prefill is None:
                    self.first_byte = self._clock.seconds()
                else:
                    data = self._look_at_start(data, self._prefill)
            if self._tap is not None:
                self._tap.feed(data)
            self._down(data if self._through is None else self._through.feed(data))
        except Exception:  # ours may be anything: the client is not to wait for more
            self._connection.abort()
            self.connectionLost(Failure())
            return
        if self._begins is not None:
            self._left -= came
            if self._left < 0:
                self._connection.kept = None

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The body has ended, wholly or not."""
        if self._over:
            return
        why = None if reason is WHOLE else reason
        if why is None:
            try:
                if self._tap is not None and self._tap.is_cut:
                    raise ResponseError(CUT)  # noqa: TRY301 - one way for both
                if self._prefill is not None and self.first_byte is None:
                    self._down(self._prefill.close())
                if self._through is not None:
                    self._down(self._through.close())
            except Exception:  # as above
                why = Failure()
        if why is None:
            self._stop_all()
            self._request.channel.producer = None
            self._request.finish()
        else:
            self._cut()
        ending, self._ending = self._ending, None
        if ending is not None:
            ending.callback(why)

    def _unwanted(self, _: Deferred[None]) -> None:
        """Nobody waits for it any more."""
        self._ending = None
        if not self._over:
            self._stop_all()
            self._connection.close_unread_by(self)

    def pauseProducing(self) -> None:
        """The client does not keep up: stop reading from the upstream."""
        if self._pings is not None:
            self._pings.hold()
        self._connection.pauseProducing()

    def resumeProducing(self) -> None:
        """Read on."""
        if self._pings is not None:
            self._pings.go_on()
        self._connection.resumeProducing()

    def stopProducing(self) -> None:
        """Do nothing: the client is gone, which ends the exchange, or has its request held."""

    def detach(self) -> bool:
        """Write no more, so that the body may be another's; return whether it had not ended."""
        was_over = self._over
        self._stop_all()
        return not was_over

    def _look_at_start(self, data: bytes, reader: PrefillReader) -> bytes:
        """See whether the answer begins with ``data``, or how far the server is with the prompt.

        Returns what goes down.
        """
        down = reader.feed(data)
        progress = None
        if reader.has_begun:
            self.first_byte = self._clock.seconds()
        else:
            progress = reader.progress
        if progress is not self._progress:
            self._progress = progress
            self._progressed(progress)
        return down

    def _down(self, data: bytes) -> None:
        """Write ``data`` to the client: the one place that does, but for pings.

        The last of the body goes out with the end that is known to follow.
        """
        if not data:  # an event that means nothing in the client's dialect
            return
        if self._begins is not None and self.first_byte is not None:
            begins, self._begins = self._begins, None
            begins()
        self.bytes_down += len(data)
        self._request.write(data, waits=self._connection.is_whole)
        if self._pings is not None:
            self._pings.sent(data, begun=self.first_byte is not None)
        if self.kept is not None and self.bytes_down <= _MOST_KEPT:
            self.kept.add(data)
        if self._listener is not None:
            self._listener.feed(data)

    def _cut(self) -> None:
        pings = self._pings
        self.is_open = (
            self._defers
            and pings is not None
            and pings.may_write
            and (self.first_byte is None or not self.bytes_down)
        )
        self._stop_all()
        self._request.channel.producer = None
        if not self.is_open:
            self._break_off()

    def _stop_all(self) -> None:
        self._over = True
        if self._progress is not None:  # the prompt was given up
            self._progress = None
            self._progressed(None)
        if self._pings is not None:
            self._pings.stop()

    def _break_off(self) -> None:
        """Send what came, then close without saying that this was all.

        A body that ends with the connection (HTTP/1.0) has only a reset to say so.
        """
        channel = self._request.channel
        if not self._request.framed:
            channel.abort()
            return
        self._request.flush()
        flushing = self._clock.callLater(_FLUSH_SECONDS, channel.abort)

        def closed(_: Failure) -> None:  # a TLS transport must not be aborted then (Twisted 26.10)
            if flushing.active():
                flushing.cancel()

        self._request.on_gone = closed
        channel.close()
