"""The upstream says nothing: in the end the client is told, and never takes a part for all."""

from __future__ import annotations

import json
import threading
import time

import pytest

from tests.proxy.harness import CHUNKED, TIMEOUT, Client, Proxy, head, whole

EVENT = b"data: {}\n\n"
BODY = b'{"model":"m","messages":[]}'
LIMIT = 1.0


@pytest.fixture(scope="module")
def impatient(_upstream, tmp_path_factory):
    """A proxy that waits a second for a word from its upstream, and lets its clients know."""
    limits = ("--upstream-silence", str(LIMIT), "--ping-after", "0.2")
    folder = tmp_path_factory.mktemp("impatient")
    _upstream.reset()
    with Proxy(folder, "--upstream", _upstream.url, *limits) as proxy:
        for path in ("/v1/messages", "/v1/chat/completions"):  # it learns what is served
            with Client(proxy.address) as client:
                assert client.ask(path, BODY).answer().status == 200
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture
def proxy(impatient, upstream):
    return impatient


@pytest.fixture
def falls_silent(serve):
    """Answer with some bytes, then say nothing; the semaphore counts what the proxy closed.

    ``data`` is a name for each answer: requests then have the name's number as their query.
    """

    def start(data):
        closed = threading.Semaphore(0)

        def script(peer, received):
            if isinstance(data, bytes):
                peer.send(data)
            else:
                number = int(received.line.split(b" ")[1].partition(b"?")[2])
                peer.send(list(data.values())[number])
            if peer.wait_closed():
                closed.release()

        serve(script)
        return closed

    return start


BEFORE = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nCont",
    "an interim response": head(status=b"100 Continue"),
}


def test_before_the_head_the_client_gets_504(connect, falls_silent, upstream):
    """The upstream is closed, and asked only once."""
    closed = falls_silent(BEFORE)
    clients = [connect().ask(f"/v1/messages?{number}", BODY) for number in range(len(BEFORE))]
    for client in clients:
        answer = client.answer()
        assert (answer.status, answer.end) == (504, "whole")
        error = json.loads(answer.body)["error"]
        assert error["type"] == "timeout_error"
        assert error["message"] == (
            "cacheproxy: the upstream sent nothing for 1 s; allow more with --upstream-silence "
            f"(0 = no limit) ({upstream.url})"
        )
        assert closed.acquire(timeout=TIMEOUT)
    assert upstream.requests.qsize() == len(BEFORE)


def test_it_is_said_in_the_client_s_dialect(connect, falls_silent):
    """OpenAI's shape, and Ollama's."""
    falls_silent(b"")
    openai, ollama = connect().ask("/v1/chat/completions", BODY), connect().ask("/api/chat", BODY)
    assert "--upstream-silence" in json.loads(openai.answer().body)["error"]["message"]
    assert "--upstream-silence" in json.loads(ollama.answer().body)["error"]


WITHIN = {
    "a stream, nothing": CHUNKED,
    "a stream, an event": CHUNKED + b"a\r\n" + EVENT + b"\r\n",
    "a stream, half a chunk": CHUNKED + b"a\r\n" + EVENT[:5],
    "a length": head(b"Content-Length: 100") + EVENT,
    "until it closes": head() + EVENT,
}


def test_after_the_head_the_answer_breaks_off(connect, falls_silent, proxy):
    """Without a proper end; our own pings do not count as a word from the upstream."""
    closed = falls_silent(WITHIN)
    mark = proxy.mark()
    clients = [
        connect().ask(f"/v1/chat/completions?{number}", BODY) for number in range(len(WITHIN))
    ]
    for client in clients:
        answer = client.answer()
        assert answer.status == 200
        assert answer.end in ("fin", "rst")
        assert answer.framed
        assert closed.acquire(timeout=TIMEOUT)
        line = proxy.wait_for("UPSTREAM FAILED", mark)
        assert "UPSTREAM FAILED: the upstream sent nothing for 1 s" in line
        mark = proxy.lines.index(line, mark) + 1


def test_an_http_1_0_client_sees_a_reset(connect, falls_silent):
    """It has no chunks to tell it."""
    falls_silent(CHUNKED)
    assert connect().ask(version=b"HTTP/1.0").answer().end == "rst"


def test_every_byte_begins_the_time_anew(connect, serve):
    """A slow answer may take as long as it likes, in its head, too; here nearly twice the limit."""
    said = head(b"Content-Length: 3") + b"abc"
    pieces = [said[:9], said[9:20], said[20:-3], said[-3:-2], said[-2:-1], said[-1:]]

    def script(peer, _):
        for piece in pieces:
            time.sleep(0.3 * LIMIT)
            peer.send(piece)

    serve(script)
    answer = connect().ask().answer()
    assert (answer.status, answer.body, answer.end) == (200, b"abc", "whole")


def test_while_the_client_does_not_read_the_time_stands_still(connect, serve):
    """The upstream would speak if we let it."""
    body = bytes(range(256)) * 65536
    sent = threading.Event()

    def script(peer, _):
        peer.sock.settimeout(TIMEOUT)
        peer.send(whole(body))
        sent.set()

    serve(script)
    client = connect(1 << 14).ask()
    time.sleep(2.5 * LIMIT)
    assert not sent.is_set()
    assert b"".join(client.pieces(client.begin())) == body
