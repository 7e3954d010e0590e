"""What the upstream answers reaches the client as it was sent, as soon as it was sent."""

from __future__ import annotations

import gzip
import signal
import threading
import time
from pathlib import Path

import pytest

from .harness import CHUNKED, TIMEOUT, head, whole

EVENT = b"event: message\ndata: {}\n\n"


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


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Again", b"308 Moved"])
def test_redirects_are_not_followed(connect, respond, upstream, status):
    """The client gets the redirect; one request went upstream."""
    target = b"Location: %s/elsewhere" % upstream.url.encode()
    respond(whole(b"", target, status=status))
    answer = connect().ask(method=b"GET").answer()
    assert answer.values(b"location") == [target.partition(b": ")[2]]
    assert upstream.received()
    assert upstream.requests.empty()


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


@pytest.mark.parametrize("coding", [b"gzip", b"br", b"identity", b"x-odd"])
def test_content_codings_are_left_alone(connect, respond, coding):
    """Even where the client has not asked for one, or the body is not what it says."""
    for body in (gzip.compress(b"hello" * 100), b"not at all"):
        respond(whole(body, b"Content-Encoding: " + coding, b"Content-Type: application/json"))
        answer = connect().ask(b"/v1/messages", b"{}").answer()
        assert answer.body == body
        assert answer.values(b"content-encoding") == [coding]


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 3_000_000])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_bodies_pass_byte_for_byte(connect, respond, size, framing):
    """Whatever their size and framing."""
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
    """Nothing is held back: the upstream waits until the client has seen what it sent."""
    seen = threading.Semaphore(0)

    def script(peer, _):
        peer.send(CHUNKED)
        assert seen.acquire(timeout=TIMEOUT)  # the head has arrived, before any of the body
        for number in range(50):
            peer.chunk(b"data: %d\n\n" % number)
            assert seen.acquire(timeout=TIMEOUT)
        peer.send(b"0\r\n\r\n")

    serve(script)
    client = connect().ask()
    answer = client.begin()
    seen.release()
    expected = iter(range(50))
    for piece in client.pieces(answer):
        assert piece == b"data: %d\n\n" % next(expected)
        seen.release()
    assert next(expected, None) is None


def test_half_an_event_is_passed_on_too(connect, serve):
    """The proxy does not wait for an event's end, nor for a chunk's."""
    go_on = threading.Event()

    def script(peer, _):
        peer.send(CHUNKED + b"10\r\ndata: ")
        assert go_on.wait(TIMEOUT)
        peer.send(b"0123456789\r\n0\r\n\r\n")

    serve(script)
    client = connect().ask()
    pieces = client.pieces(client.begin())
    assert next(pieces) == b"data: "
    go_on.set()
    assert b"".join(pieces) == b"0123456789"


@pytest.mark.parametrize(
    ("response", "method", "expected"),
    [
        (head(b"Content-Length: 7"), b"HEAD", (200, [b"7"])),
        (CHUNKED, b"HEAD", (200, [])),
        (head(), b"HEAD", (200, [])),
        (head(status=b"204 No Content"), b"GET", (204, [])),
        (head(b"Content-Length: 0", status=b"204 No Content"), b"GET", (204, [])),
        (head(b"Content-Length: 7", status=b"304 Not Modified"), b"GET", (304, [])),
        (head(b"Content-Length: 0", status=b"404 Not Found"), b"GET", (404, [b"0"])),
    ],
)
def test_responses_without_a_body(connect, respond, response, method, expected):
    """The announced length goes down; the connection can serve another request."""
    status, length = expected
    respond(response)
    client = connect().ask(b"/x", method=method)
    answer = client.answer(method=method)
    assert (answer.status, answer.body, answer.end) == (status, b"", "whole")
    assert answer.values(b"content-length") == length
    if method != b"HEAD":
        assert not answer.values(b"transfer-encoding")
    respond(whole(b"next"))
    assert client.ask(b"/x", method=b"GET").answer().body == b"next"


@pytest.mark.parametrize(
    "response",
    [
        head(b"Content-Length: 5, 5") + b"hello",
        head(b"Content-Length: 5", b"Content-Length: 5") + b"hello",
        head(b"Content-Length: 9", b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        head(status=b"100 Continue") + head(status=b"103 Hints") + whole(b"hello"),
        whole(b"hello") + whole(b"second response"),
        CHUNKED + b"5;x=y\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n",
    ],
    ids=["twice in one", "twice", "both", "HTTP/1.0", "interim", "two answers", "trailer"],
)
def test_odd_framing_becomes_plain(connect, respond, response):
    """The client's side has one length or chunks, no interim responses, no trailers."""
    respond(response)
    answer = connect().ask().answer()
    assert (answer.status, answer.body, answer.end) == (200, b"hello", "whole")
    assert not answer.interim
    framing = answer.values(b"content-length") + answer.values(b"transfer-encoding")
    assert framing in ([b"5"], [b"chunked"])
    assert not answer.values(b"x-trailer")


def test_an_answer_before_the_request_is_read(connect, upstream):
    """The upstream refuses a large request without reading it: the client gets the refusal."""

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
