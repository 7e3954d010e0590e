"""Signs of life for a client that waits for a long prefill."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from cacheproxy.core.http1.response_reader import ResponseHead
from cacheproxy.proxy.transport.deadline import Silence

# How bytes end after an empty line, if lines may end with CR LF, LF or CR (section 9.2.5). Not
# LF CR: another LF may belong to it.
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r\n", b"\r\r")
_LONGEST_END = max(map(len, _EVENT_ENDS))


def takes_pings(head: ResponseHead) -> bool:
    """Whether the response is an event stream that bytes can be put into.

    Encoded ones cannot, nor those whose length is announced.
    """
    return (
        head.length is None
        and head.status == 200
        and head.content_type.partition(b";")[0].strip() == b"text/event-stream"
        and not head.values(b"content-encoding")
    )


class Pings(Silence):
    """Writes ``ping`` whenever nothing has gone down for ``after`` seconds, between events.

    llama.cpp answers a streaming request with 200 at once and evaluates the prompt then. Agents
    and what stands between give up after some minutes of silence and send the request again,
    which begins a second full prefill. A client that does not read (``hold``) needs none.
    """

    def __init__(
        self, clock: IReactorTime, after: float, ping: bytes, write: Callable[[bytes], object]
    ) -> None:
        super().__init__(clock, after, self._quiet)
        self._ping = ping
        self._write = write
        self._end = b"\n\n"  # before the first event is a good place, too

    def sent(self, data: bytes) -> None:
        """Take note of bytes that went down."""
        if len(data) < _LONGEST_END:
            data = self._end + data
        self._end = data[-_LONGEST_END:]
        self.heard()

    def _quiet(self) -> None:
        # Within an event nothing is set: the bytes that end it do so.
        if self._end.endswith(_EVENT_ENDS):
            self.heard()
            self._write(self._ping)
