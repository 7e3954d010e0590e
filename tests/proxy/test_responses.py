"""What the upstream answers reaches the client as it was sent, as soon as it was sent."""

import gzip
import signal
import threading
import time
from pathlib import Path

import pytest

from tests import transcript

from .harness import CHUNKED, TIMEOUT, head, whole


def test_status_reason_and_headers_are_kept(connect, respond):
    """Values byte for byte, in their order within a name, duplicates and Latin-1 included.

    Those of RFC 9110, section 7.6.1, and those that Connection names, are not.
    """
    kept = [
        b"Set-Cookie: a=1; Path=/",
        b"X-Latin: caf\xe9 \xff\x80",
        b"Set-Cookie: b=2",
        b'x-odd:  a  b\t"c" ',
        b"X-Empty:",
        b"Server: llama.cpp",
        b"Date: Thu, 01 Jan 1970 00:00:00 GMT",
        b'ETag: W/"x"',
        b"Via: 1.1 other",
    ]
    hop_by_hop = [
        b"Connection: keep-alive, X-Private",
        b"X-Private: 1",
        b"Keep-Alive: timeout=5",
        b"Proxy-Authenticate: Basic",
        b"Trailer: X",
        b"Upgrade: h2c",
    ]
    respond(whole(b"body", *kept, *hop_by_hop, status=b"418 I'm a te\xe4pot"))
    answer = connect().ask().answer()
    assert (answer.status, answer.reason) == (418, b"I'm a te\xe4pot")
    expected = {b"content-length": [b"4"]}
    for line in kept:
        name, _, value = line.partition(b":")
        expected.setdefault(name.lower(), []).append(value.strip())
    assert {name.lower(): answer.values(name) for name, _ in answer.headers} == expected


def test_cookies_are_never_mixed(connect, serve, upstream):
    """What one client is given is not sent with another's request, nor with its own."""
    serve(lambda peer, _: peer.send(whole(b"", b"Set-Cookie: sid=secret; Path=/")))
    client = connect()
    assert client.ask().answer().values(b"set-cookie") == [b"sid=secret; Path=/"]
    client.ask(b"/v1/messages", b"{}", b"Cookie: own=1").answer()
    connect().ask().answer()
    assert upstream.received().values(b"cookie") == []
    assert upstream.received().values(b"cookie") == [b"own=1"]
    assert upstream.received().values(b"cookie") == []


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 3_000_000])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_bodies_pass_byte_for_byte(connect, respond, size, framing):
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    pieces = [body[start : start + 10_007] for start in range(0, size, 10_007)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    framings = {
        "length": whole(body),
        "chunked": CHUNKED + chunks + b"0\r\n\r\n",
        "close": head() + body,
    }
    respond(framings[framing])
    answer = connect().ask().answer()
    assert (answer.status, answer.end) == (200, "whole")
    assert answer.body == body
    assert answer.values(b"transfer-encoding") == ([] if framing == "length" else [b"chunked"])


def test_each_event_arrives_before_the_next_is_sent(connect, serve):
    """Nothing is held back: the upstream waits until the client has seen what it sent.

    The proxy does not wait for an event's end, nor for a chunk's.
    """
    seen = threading.Semaphore(0)
    events = [b"data: %d\n\n" % number for number in range(50)]

    def script(peer, _):
        peer.send(CHUNKED)
        assert seen.acquire(timeout=TIMEOUT)  # the head has arrived, before any of the body
        for event in events:
            peer.chunk(event)
            assert seen.acquire(timeout=TIMEOUT)
        peer.send(b"10\r\ndata: ")
        assert seen.acquire(timeout=TIMEOUT)
        peer.send(b"0123456789\r\n0\r\n\r\n")

    serve(script)
    client = connect().ask()
    answer = client.begin()
    seen.release()
    pieces = []
    for piece in client.pieces(answer):
        pieces.append(piece)
        seen.release()
    assert pieces == [*events, b"data: ", b"0123456789"]


LOCATION = b"Location: http://127.0.0.1/elsewhere"
GZIP, BR = b"Content-Encoding: gzip", b"Content-Encoding: br"
PACKED = gzip.compress(b"hello" * 100)
NO_CONTENT = b"204 No Content"


def test_odd_answers_reach_the_client_whole(connect, respond, upstream):
    """And the connection can serve another request."""

    def answered(sent, method=b"GET"):
        respond(sent)
        client = connect()
        answer = client.ask(b"/x", method=method).answer(method=method)
        assert answer.end == "whole"
        assert not answer.interim
        assert upstream.received()
        assert upstream.requests.empty()
        respond(whole(b"next"))
        assert client.ask(b"/x", method=b"GET").answer().body == b"next"
        assert upstream.received()
        fields = b" | ".join(b": ".join(field) for field in answer.headers)
        said = b"%d %b\n%b" % (answer.status, fields, answer.body)
        return said.replace(PACKED, b"PACKED").replace(b": %d\nP" % len(PACKED), b": N\nP").decode()

    transcript.holds("odd_answers.txt", globals() | locals())


def test_an_answer_before_the_request_is_read(connect, upstream):

    def refuse(peer):
        peer.read_until(b"\r\n\r\n")
        peer.send(whole(b"too much", status=b"413 Too Much"))
        time.sleep(0.2)

    upstream.reset(on_connection=refuse)
    answer = connect().ask(b"/x", b"x" * 6_000_000).answer()
    assert (answer.status, answer.body, answer.end) == (413, b"too much", "whole")


def test_a_burst_of_connections_has_room(proxy, connect):
    """All of it waits in the system's queue, even where the proxy cannot look: none is dropped."""
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    proxy.signal(signal.SIGSTOP)
    try:
        clients = [connect() for _ in range(min(200, most))]
    finally:
        proxy.signal(signal.SIGCONT)
    assert [client.ask().answer().status for client in clients] == [200] * len(clients)
