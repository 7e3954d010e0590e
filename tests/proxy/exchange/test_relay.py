"""Relay: the end of an answer that broke off, and signs of life before it begins."""

import itertools
import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.stream import COMMENT, CUT
from cacheproxy.core.http1.response_reader import ResponseHead
from cacheproxy.core.kinds.prefill import PrefillReader, Progress
from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.relay import Pings, Relay, takes_pings
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.translate.reading import TranslationError
from tests import transcript
from tests.proxy.conftest import proxy_with
from tests.proxy.harness import CHUNKED, LAST, TIMEOUT, Client, chunk, eventually

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
EVENT = b'event: x\ndata: {"a": 1}\n\n'


PIECE = chunk(b"x" * 10)


class Transport(StringTransport):
    """Also keeps apart what is written apart."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, data):
        self.pieces.append(data)
        super().write(data)


class Down(Resource):
    """An answer under way, of which the relay gets ``more``; ``ending`` is what came of it.

    ``after``: seconds of silence after which pings go down.
    """

    isLeaf = True

    def __init__(self, version=b"1.1", after=None, **more):
        super().__init__()
        self.clock, self.transport, self.failures = Clock(), Transport(), []
        self.after, self.more = after, more
        site = ProxySite(self, self.clock, Limits(), Access(frozenset(), ""))
        self.channel = site.buildProtocol(None)
        self.channel.makeConnection(self.transport)
        self.channel.dataReceived(b"GET / HTTP/%s\r\nHost: localhost\r\n\r\n" % version)

    def render(self, request):
        request.send_head(200, b"OK", ())
        request.flush()
        if self.after:
            self.more["pings"] = Pings(self.clock, self.after, lambda _: COMMENT, request.write)
        self.upstream = UpstreamConnection(b"", b"", b"POST", self.clock, 0)
        self.upstream.makeConnection(StringTransport())
        self.relay = Relay(request, self.upstream, self.clock, **self.more)
        self.upstream.dataReceived(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.transport.pieces.clear()
        self.ending = self.relay.start().addErrback(self.failures.append)
        return NOT_DONE_YET

    def comes(self, *pieces):
        """Let the upstream say them."""
        for piece in pieces:
            self.upstream.dataReceived(piece)

    def is_broken_off(self, why):
        """Whether the client sees that its answer is not whole."""
        said = [str(failure.value) for failure in self.failures]
        return self.transport.disconnecting and said == [why]


class Ending:
    """A translation that fails, or says more, at its end."""

    def __init__(self, more):
        self.more = more

    def feed(self, data):
        return data

    def close(self):
        if isinstance(self.more, Exception):
            raise self.more
        return self.more


class Cut:
    """Reads an answer along that lacks its dialect's end."""

    is_cut = True

    def feed(self, data):
        """Read on."""


@pytest.mark.parametrize(
    ("more", "reads", "why"),
    [
        ({}, [PIECE, b"nonsense"], "the upstream's chunk framing is broken"),
        ({"tap": Cut()}, [PIECE + LAST], CUT),
        ({"through": Ending(TranslationError("no sense"))}, [PIECE + LAST], "no sense"),
        ({"through": Ending(ZeroDivisionError("ours"))}, [PIECE + LAST], "ours"),
    ],
    ids=["broken", "without its dialect's end", "not translated", "a fault of ours"],
)
def test_what_came_is_sent_and_then_it_closes(more, reads, why):
    """Without a terminator; who does not read it is left after ten seconds, by a reset."""
    down = Down(**more)
    down.comes(*reads)
    assert down.transport.pieces == [PIECE]
    assert down.is_broken_off(why)
    assert down.channel.producer is None
    down.clock.advance(9.9)
    assert not down.transport.disconnected
    down.clock.advance(0.1)
    assert down.transport.disconnected


def test_a_client_of_http_1_0_gets_a_reset():
    down = Down(b"1.0", after=15)
    down.clock.advance(15)
    down.comes(chunk(EVENT), b"nonsense")
    assert down.transport.pieces == [COMMENT, EVENT]
    assert down.transport.disconnected


def test_a_client_that_has_gone_is_left_alone():
    """Nothing is done to its transport any more, and no timer runs."""
    down = Down()
    down.comes(b"nonsense")
    down.channel.connectionLost(Failure(ConnectionDone()))
    assert down.clock.getDelayedCalls() == []


def test_who_waits_no_longer_closes_the_upstream():
    down = Down()
    down.ending.cancel()
    assert down.upstream.transport.disconnected
    down.comes(chunk(b"a"))
    assert down.transport.pieces == []


def test_an_answer_begins_after_its_signs_of_life():
    """They go down as they come; what they tell of the prompt is passed on, and its end."""
    told = []
    down = Down(prefill=PrefillReader(), progressed=told.append)
    for comment in (b":\n\n", b": keepalive 1/2\n\n", b":\n\n", b": keepalive 2/2\n\n"):
        down.clock.advance(1)
        down.comes(chunk(comment))
        assert down.transport.pieces[-1] == chunk(comment)
    assert told == [Progress(1, 2), Progress(2, 2)]
    assert down.relay.first_byte is None
    for _ in range(2):
        down.clock.advance(1)
        down.comes(chunk(b"data: {}\n\n"))
    assert down.relay.first_byte == 5.0
    assert told == [Progress(1, 2), Progress(2, 2), None]


def test_without_signs_of_life_nothing_is_told():
    """The end goes out with what came with it: otherwise each read is a write."""
    told = []
    down = Down(prefill=PrefillReader(), progressed=told.append)
    down.clock.advance(1)
    down.comes(chunk(b"data: {}\n\n"), chunk(b"b") + chunk(b"c") + LAST)
    assert (down.relay.first_byte, down.relay.bytes_down, told) == (1.0, 12, [])
    assert down.transport.pieces == [chunk(b"data: {}\n\n"), chunk(b"bc") + LAST]


def test_what_we_asked_for_goes_no_further():
    """It is no answer, and counts for nothing; what was held goes down with the end."""
    told = []
    down = Down(prefill=PrefillReader(strip_progress=True), progressed=told.append)
    chunks = [b'data: {"n":1,"prompt_progress":{"total":9,"processed":%d}}\n\n' % n for n in (3, 9)]
    down.comes(*map(chunk, chunks), chunk(b": a\n\ndata: b"))
    assert down.transport.pieces == [chunk(b": a\n\n")]
    down.comes(LAST)
    assert down.transport.pieces[1:] == [chunk(b"data: b") + LAST]
    assert told == [Progress(3, 9), Progress(9, 9), None]
    assert (down.relay.first_byte, down.relay.bytes_down) == (None, 12)


def test_what_a_translation_says_at_the_end_goes_out_with_it():
    down = Down(through=Ending(b"bye"))
    down.comes(chunk(b"a") + LAST)
    assert down.transport.pieces == [chunk(b"a") + chunk(b"bye") + LAST]


def test_the_upstream_waits_while_the_client_does():
    """No ping is written then: it needs no sign of life, and what waits for it would only grow."""
    down = Down(after=15)
    down.channel.producer.pauseProducing()
    assert down.upstream.transport.producerState == "paused"
    down.clock.advance(1000)
    assert down.transport.pieces == []
    down.channel.producer.resumeProducing()
    assert down.upstream.transport.producerState == "producing"
    down.clock.advance(15)
    assert down.transport.pieces == [chunk(COMMENT)]


def test_pings_are_neither_kept_nor_counted():
    """Nor are they the answer's first byte; behind its end there are none."""
    down = Down(after=15, keep=True)
    down.clock.advance(15)
    assert down.relay.first_byte is None
    down.comes(chunk(EVENT))
    down.clock.advance(15)
    down.comes(LAST)
    down.clock.advance(15)
    assert down.transport.pieces == [chunk(COMMENT), chunk(EVENT), chunk(COMMENT), LAST]
    assert (down.relay.bytes_down, down.relay.retained.joined()) == (len(EVENT), EVENT)


attentive = proxy_with(
    *("--ping-after", "0.2", "--capture", "capture"), asks=("/v1/messages", "/v1/chat/completions")
)


@pytest.mark.parametrize(
    ("path", "ping"),
    [("/v1/messages", PING), ("/v1/chat/completions", CHAT.sign(b"")), ("/v1/responses", COMMENT)],
)
def test_a_silent_stream_carries_the_dialects_own_ping(attentive, upstream, path, ping):
    """Again and again, until the upstream speaks; then what it says, unchanged.

    The record has that alone, and when it said its first word.
    """
    go_on = threading.Event()
    word = b"marked with " + path.encode()

    def script(peer, _):
        peer.send(CHUNKED)
        assert go_on.wait(TIMEOUT)
        peer.send(chunk(b'data: "%s"\n\n' % word) + LAST)

    upstream.reset(script)
    mark, begun = attentive.mark(), time.monotonic()
    with Client(attentive.address) as client:
        pieces = client.pieces(client.ask(path, b'{"messages":[]}').begin())
        assert [next(pieces) for _ in range(3)] == [ping] * 3
        waited = time.monotonic() - begun
        go_on.set()
        *pings, last = pieces
    assert last == b'data: "%s"\n\n' % word
    assert set(pings) <= {ping}
    line = attentive.wait_for("s first", mark)
    assert float(re.search(r"([\d.]+)s first", line)[1]) >= round(waited - 0.05, 1)

    def captured():
        folder = attentive.folder / "capture"
        return b"".join(file.read_bytes() for file in folder.rglob("*.*"))

    eventually(lambda: word in captured())
    assert ping.split(b"\n")[0] not in captured()


# --- what a ping may be put between


class Written:
    """A stream on its way down: ``written`` is all that the client gets."""

    def __init__(self, ping=COMMENT, *, is_full=False):
        self.clock = Clock()
        self.written = b""
        self.is_full = is_full
        self.pings = Pings(self.clock, 15.0, lambda _: ping, self.write)
        self.pings.heard()

    def write(self, data):
        self.written += data
        if self.is_full:
            self.pings.hold()

    def send(self, data):
        self.write(data)
        self.pings.sent(data)

    def count_after(self, seconds):
        """How many pings there are when they have passed."""
        self.clock.advance(seconds)
        return self.written.count(COMMENT)


def between(sent):
    """Whether a ping goes down behind ``sent``, however that was cut into chunks."""
    found = set()
    for chunks in ([sent], [sent[i : i + 1] for i in range(len(sent))]):
        down = Written()
        for each in chunks:
            down.send(each)
        down.clock.advance(15)
        assert down.written in (sent, sent + COMMENT)
        found.add(down.written != sent)
    (is_between,) = found
    return is_between


STREAM = (b"Content-Type", b"text/event-stream")


def takes(status, fields, length):
    return takes_pings(ResponseHead(status, b"", tuple(fields), length))


def test_what_takes_pings():
    transcript.holds("pings.txt", globals())


line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
lines = st.sampled_from([b"data: a", b"data: b", b"event: x", b": comment", b"id: 7", b""])
streams = st.lists(st.tuples(lines, line_ends), max_size=20).map(
    lambda pairs: b"".join(itertools.chain.from_iterable(pairs))
)


def events(stream):
    """What a reader of the stream dispatches (HTML Standard, section 9.2.6), pings left out."""
    found, kind, data = [], b"", []
    for line in re.split(rb"\r\n|\n|\r", stream)[:-1]:
        if line.startswith(b"data: "):
            data.append(line[6:])
        elif line.startswith(b"event: "):
            kind = line[7:]
        elif not line:
            if data and kind != b"ping":
                found.append((kind, b"\n".join(data)))
            kind, data = b"", []
    return found, (kind, data)


@given(stream=streams, sizes=st.lists(st.integers(1, 5), max_size=60), ping=st.booleans())
def test_no_ping_changes_what_a_reader_understands(stream, sizes, ping):
    """With every mixture of line ends, cut anywhere, and a silence after every chunk."""
    down = Written(PING if ping else COMMENT)
    rest = stream
    for size in (*sizes, len(stream)):
        down.clock.advance(15)
        if rest:
            down.send(rest[:size])
            rest = rest[size:]
    assert events(down.written) == events(stream)
    assert down.written.startswith(PING if ping else COMMENT)


def test_only_silence_brings_a_ping_and_it_costs_one_timer():
    down = Written()
    for _ in range(1000):
        down.clock.advance(14)
        down.send(b"data: x\n\n")
    assert down.count_after(0) == 0
    assert len(down.clock.getDelayedCalls()) == 1
    down.clock.advance(15)
    assert [down.count_after(14), down.count_after(1)] == [1, 2]


def test_none_on_hold_and_none_after_the_end():
    down = Written()
    down.pings.hold()
    down.send(b"\n\n")  # a chunk that was already there
    assert down.count_after(1000) == 0
    down.pings.go_on()
    assert [down.count_after(14.9), down.count_after(0.1)] == [0, 1]
    down.pings.stop()
    assert down.clock.getDelayedCalls() == []
    down.pings.go_on()
    assert down.count_after(1000) == 1


def test_a_client_that_stops_reading_because_of_a_ping_gets_no_more():
    """Writing one may be what fills its buffer."""
    down = Written(is_full=True)
    assert [down.count_after(15) for _ in range(5)] == [1] * 5
