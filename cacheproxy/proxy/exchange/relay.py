"""The response body on its way down, and signs of life for the client that waits for it."""

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
"""Seconds in which a client has to read the last bytes of an answer that broke off."""
_MOST_RETAINED = 64 << 20
_MOST_BEFORE = 4 << 20
"""Bytes from the upstream at most that are retained for a retry before the answer begins."""
# Last bytes of an event: an empty line, where lines end with CR LF, LF or CR (HTML standard,
# section 9.2.5). LF CR is none: another LF may belong to it.
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r\n", b"\r\r")
_LONGEST_END = max(map(len, _EVENT_ENDS))
_COMMENTS = re.compile(rb"(?:(?::[^\r\n]*)?(?:\r\n?|\n))*")
_LOOKED_AT = 4096
"""Bytes of an answer's beginning that are passed to ``sign``."""
EVENTS, JSON = b"text/event-stream", b"application/json"


def takes_pings(head: ResponseHead, kind: bytes = EVENTS) -> bool:
    """Whether the response is of content type ``kind``, and signs of life can be put into it.

    They cannot if the body is encoded or its length is announced.
    """
    return (
        head.length is None
        and head.status == 200
        and head.content_type.partition(b";")[0].strip() == kind
        and not head.values(b"content-encoding")
    )


class Pings(Deadline):
    """Signs of life in an event stream, written between events after ``after`` silent seconds.

    llama.cpp answers a streaming request with 200 at once, and then evaluates the prompt. Agents
    and intermediaries give up after some minutes of silence and send the request again, which
    begins a second full prefill. A client that does not read (``hold``) needs no signs.

    ``first``: the first bytes of the answer, b"" before there are any; ``sign`` returns a sign
    made from them. ``heeds`` returns whether the client takes comments, the upstream's included,
    for signs of life; most clients do not.
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
        self._end = b"\n\n"  # a sign may also be written before the first event

    def sent(self, data: bytes, *, begun: bool = True) -> None:
        """Take note of bytes that went down; ``begun``: whether the answer itself has begun."""
        is_silent = data[:1] == b":" and self._is_comments(data)
        if not (self.first or is_silent):  # even an empty first chunk has the answer's id
            self.first = data[:_LOOKED_AT]
        if (begun and not is_silent) or self._heeds():
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
        """Whether the stream is between two events."""
        return self._end.endswith(_EVENT_ENDS)

    def _quiet(self) -> None:
        # Within an event nothing is written; the bytes that end it start the timer again.
        if self.may_write:
            self.write()


class Blanks(Pings):
    """Signs of life before a JSON body: blanks, with which it may begin (RFC 8259, section 2)."""

    def __init__(self, clock: IReactorTime, after: float, write: Callable[[bytes], object]) -> None:
        super().__init__(clock, after, lambda _: b" ", write)

    def sent(self, data: bytes, *, begun: bool = True) -> None:  # noqa: ARG002
        """Stop: the body has begun, and no blanks may stand within it."""
        self.stop()


@implementer(IPushProducer)
class Relay(Protocol):
    """The relay of a body: it writes chunks down as they come, unbuffered; ``tap`` reads a copy.

    ``through``: translates or reshapes the chunks, None to write them unchanged. ``defers``: the
    head is ours, of a stream that can carry a deferred error: if the body breaks off before its
    answer has begun, the stream stays open (``is_open``) for the caller to end with one.

    ``keep``: retain the body, at most 64 MiB of it, as ``retained``. ``listener``: gets a copy of
    the bytes that go down. ``first_byte``: when the answer began; ``prefill`` tells its bytes from
    the server's signs of life. Until then ``progressed`` is called with the progress of the prompt,
    and with None when that is over.

    ``begins`` is called before the first byte of the answer goes down; None: a retry may still have
    the answer afterwards. Until then the relay may be detached, and another delivery get the body
    from its beginning.

    The client's pauses pause the upstream. While the upstream is silent, ``pings`` write between
    its events; ``bytes_down`` does not count them.
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
        """Whether the answer broke off before it began, so that a deferred error has to follow."""
        self.retained = Pieces() if keep else None
        self._listener = listener

    def start(self) -> Deferred[None]:
        """Begin to relay the body; let the client's pauses pause the upstream.

        Fires with None when the whole body has gone down. Errbacks if it broke off; then the
        downstream connection closes without a terminator, so that the client cannot take a part for
        the whole, unless ``is_open``. Cancelling closes the upstream.
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
        """Pass a chunk on; an exception closes the upstream."""
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
        except Exception:  # a bug of ours may raise anything: the client must not wait for more
            self._connection.abort()
            self.connectionLost(Failure())
            return
        if self._begins is not None:
            self._left -= came
            if self._left < 0:
                self._connection.retained = None

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """End the body downstream: whole if ``reason`` is WHOLE, else cut off."""
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
        """Close the upstream: ``start`` was cancelled."""
        self._ending = None
        if not self._over:
            self._stop_all()
            self._connection.close_unread_by(self)

    def pauseProducing(self) -> None:
        """Stop reading from the upstream: the client does not keep up."""
        if self._pings is not None:
            self._pings.hold()
        self._connection.pauseProducing()

    def resumeProducing(self) -> None:
        """Go on reading from the upstream."""
        if self._pings is not None:
            self._pings.go_on()
        self._connection.resumeProducing()

    def stopProducing(self) -> None:
        """Do nothing: the client has left, and the exchange ends, or its answer is held."""

    def detach(self) -> bool:
        """Write no more, so that a retry may get the body; return whether it had not ended."""
        was_over = self._over
        self._stop_all()
        return not was_over

    def _look_at_start(self, data: bytes, reader: PrefillReader) -> bytes:
        """Return the bytes of ``data`` that go down; note the answer's beginning, or progress."""
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
        """Write ``data`` to the client: the only place that does, apart from pings.

        The last bytes of a body wait for its end, and both go out in one piece.
        """
        if not data:  # an event that has no counterpart in the client's dialect
            return
        if self._begins is not None and self.first_byte is not None:
            begins, self._begins = self._begins, None
            begins()
        self.bytes_down += len(data)
        self._request.write(data, waits=self._connection.is_whole)
        if self._pings is not None:
            self._pings.sent(data, begun=self.first_byte is not None)
        if self.retained is not None and self.bytes_down <= _MOST_RETAINED:
            self.retained.add(data)
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
        if self._progress is not None:  # the server's work on the prompt has ended
            self._progress = None
            self._progressed(None)
        if self._pings is not None:
            self._pings.stop()

    def _break_off(self) -> None:
        """Flush the bytes that came, then close the connection without the body's terminator.

        A body that ends with the connection (HTTP/1.0) can only be marked as cut off by a reset.
        """
        channel = self._request.channel
        if not self._request.framed:
            channel.abort()
            return
        self._request.flush()
        flushing = self._clock.callLater(_FLUSH_SECONDS, channel.abort)

        def closed(_: Failure) -> None:  # Twisted 26.10: a closed TLS transport cannot be aborted
            if flushing.active():
                flushing.cancel()

        self._request.on_gone = closed
        channel.close()
