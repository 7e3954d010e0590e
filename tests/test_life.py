"""The proxy's life as a process: how it stops, what it survives, and that it comes back."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.proxy.harness import (
    CHUNKED,
    TIMEOUT,
    Client,
    Proxy,
    answer_ok,
    eventually,
    head,
    share_of_a_processor,
    sound_upstream,
    whole,
)

pytestmark = pytest.mark.slow

PATIENT = ("--grace", "3600")
"""What then ends all the same ends at once."""


class Held:
    """An upstream's script: it begins its answer, and ends it when ``go`` is set."""

    def __init__(self, start=CHUNKED) -> None:
        self.start = start
        self.begun = threading.Event()
        self.go = threading.Event()
        self.left = threading.Event()

    def __call__(self, peer, _) -> None:
        peer.send(self.start)
        self.begun.set()
        if self.start:
            peer.chunk(b"data: 1\n\n")
        while not self.go.wait(0.01):
            if select.select([peer.sock], [], [], 0)[0]:  # nothing more was to come
                self.left.set()
                return
        if not self.start:
            peer.send(whole(b"late", b"X-Late: 1"))
            return
        peer.chunk(b"data: 2\n\n")
        peer.send(b"0\r\n\r\n")


@pytest.fixture
def upstream():
    with sound_upstream() as found:
        yield found


@pytest.fixture
def start(tmp_path, upstream):
    """Start a proxy in front of ``upstream``, which answers with ``script`` from then on."""
    with contextlib.ExitStack() as stack:

        def start(*arguments, script=answer_ok):
            proxy = Proxy(tmp_path, "--upstream", upstream.url, *arguments)
            stack.enter_context(proxy)
            upstream.reset(script)
            return proxy

        yield start


def refuses(address):
    """Whether nobody listens at ``address`` any more."""
    try:
        socket.create_connection(address, TIMEOUT).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_with_nothing_open_it_ends_at_once(start, number):
    """With 0; connections that wait for a request, or never sent one, are closed."""
    proxy = start(*PATIENT)
    with Client(proxy.address) as used, Client(proxy.address) as unused:
        assert used.ask("/x").answer().status == 200
        proxy.signal(number)
        assert used.wait_closed()
        assert unused.wait_closed()
        assert proxy.ended() == 0
    assert "stopping" in proxy.lines
    socket.create_server(proxy.address).close()


def test_a_connection_that_was_just_made_may_ask_once(start):
    """A balancer would tell its client of a reset; who has asked is closed, nobody new let in."""
    proxy = start()
    with Client(proxy.address) as used, Client(proxy.address) as fresh:
        assert used.ask("/x").answer().status == 200
        proxy.signal(signal.SIGTERM)
        assert used.wait_closed()
        assert fresh.ask("/x").answer().status == 200
        assert fresh.wait_closed()
        with pytest.raises(OSError):  # noqa: PT011 - refused, or reset
            socket.create_connection(proxy.address, TIMEOUT).close()


def test_open_answers_are_finished(start, upstream):
    """While nobody else is let in; then it ends with 0."""
    held = Held()
    proxy = start(script=held)
    with Client(proxy.address) as client, Client(proxy.address) as idle:
        answer = client.ask("/x", b"{}").begin()
        pieces = client.pieces(answer)
        assert next(pieces) == b"data: 1\n\n"
        proxy.signal(signal.SIGTERM)
        assert idle.wait_closed()
        said = proxy.wait_for("stopping")
        assert said == (
            "stopping: 1 open answer may take up to 30 s to finish; a second signal cuts them off"
        )
        assert refuses(proxy.address)
        held.go.set()
        assert b"".join(pieces) == b"data: 2\n\n"
        assert client.wait_closed()
        assert proxy.ended() == 0


def test_an_answer_that_begins_late_says_that_it_is_the_last(start, upstream):
    held = Held(b"")
    proxy = start(script=held)
    with Client(proxy.address) as client:
        client.ask("/x", b"{}")
        assert held.begun.wait(TIMEOUT)
        proxy.signal(signal.SIGTERM)
        proxy.wait_for("stopping: 1 open answer")
        held.go.set()
        answer = client.answer()
        assert (answer.end, answer.body) == ("whole", b"late")
        assert answer.values(b"connection") == [b"close"]
        assert proxy.ended() == 0


def test_no_request_begins_any_more(start, upstream):
    """Neither one that waits behind an open answer, nor one whose head was under way."""
    held = Held()
    proxy = start(script=held)
    with Client(proxy.address) as client, Client(proxy.address) as slow:
        pieces = client.pieces(client.ask("/x", b"{}").begin())
        next(pieces)
        client.ask("/behind", b"{}")
        slow.send(b"POST /v1/messages HTTP/1.1\r\nHost: 127")
        time.sleep(0.1)  # until it has arrived
        proxy.signal(signal.SIGTERM)
        proxy.wait_for("stopping")
        slow.send(b".0.0.1\r\nContent-Length: 2\r\n\r\n{}")
        refused = slow.answer()
        assert (refused.status, refused.end) == (503, "whole")
        assert refused.values(b"connection") == [b"close"]
        assert json.loads(refused.body)["type"] == "error"
        slow.close()
        held.go.set()
        assert b"".join(pieces) == b"data: 2\n\n"
        assert client.wait_closed()
        assert proxy.ended() == 0
    assert upstream.received().line == b"POST /x HTTP/1.1"
    assert upstream.requests.empty()


def test_what_does_not_end_in_time_is_broken_off(start, upstream):
    """Its upstream is closed, its client sees no end, and the exit code says so."""
    held = Held()
    proxy = start("--grace", "0.3", script=held)
    with Client(proxy.address) as client:
        answer = client.ask("/x", b"{}")
        assert held.begun.wait(TIMEOUT)
        proxy.signal(signal.SIGTERM)
        answer = client.answer()
        assert answer.body == b"data: 1\n\n"
        assert answer.end in ("rst", "fin")
        assert held.left.wait(TIMEOUT)
        assert proxy.ended() == 1
    assert "may take up to 0.3 s" in proxy.output
    assert "warn: 1 open answer cut off" in proxy.lines


def test_a_second_signal_breaks_off_at_once(start, upstream):
    """Whoever does not want to wait need not kill it."""
    held = Held()
    proxy = start(*PATIENT, script=held)
    with Client(proxy.address) as first, Client(proxy.address) as second:
        for client in (first, second):
            next(client.pieces(client.ask("/x", b"{}").begin()))
        proxy.signal(signal.SIGTERM)
        proxy.wait_for("stopping: 2 open answers")
        proxy.signal(signal.SIGINT)
        assert proxy.ended() == 1
        assert first.answer().end != "whole"
    assert held.left.wait(TIMEOUT)
    assert "warn: 2 open answers cut off" in proxy.lines


def test_a_client_that_reads_slowly_gets_all(start, upstream):
    """Also what the proxy held for it when the upstream had long been done."""
    body = bytes(range(256)) * 8192
    proxy = start(script=lambda peer, _: peer.send(whole(body)))
    with Client(proxy.address, buffer=4096) as client:
        client.ask("/x", b"{}")
        assert upstream.received()
        proxy.signal(signal.SIGTERM)
        proxy.wait_for("stopping")  # with 1 open answer, unless the kernel has taken all of it
        time.sleep(0.2)
        answer = client.answer()
    assert (answer.end, answer.body) == ("whole", body)
    assert proxy.ended() == 0


def test_the_records_of_the_last_answers_are_kept(start, upstream, tmp_path):
    """Verdicts reached in a thread and captures are finished before the end."""
    usage = b'{"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1}}}'
    go = threading.Event()

    def script(peer, _):
        go.wait(TIMEOUT)
        peer.send(whole(usage, b"Content-Type: application/json"))

    proxy = start("--capture", "captures", script=script)
    text = "a" * (400 << 10)  # too much to be judged on the reactor's thread
    message = {"role": "user", "content": text}
    body = json.dumps({"model": "m", "messages": [message]}).encode()
    with Client(proxy.address) as client:
        client.ask("/v1/chat/completions", body, b"Content-Type: application/json")
        assert upstream.received()
        proxy.signal(signal.SIGTERM)
        proxy.wait_for("stopping: 1 open answer")
        go.set()
        assert client.answer().body == usage
        assert proxy.ended() == 0
    assert "  cold" in proxy.lines[-1]
    (file,) = Path(tmp_path / "captures").glob("*.jsonl")
    assert text in file.read_text()


def test_it_takes_all_the_descriptors_it_may_have(tmp_path):
    """Shells start programs with a soft limit that a few hundred agents exhaust."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= 256:
        pytest.skip("the hard limit is as low")
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        process = Proxy(tmp_path, "--upstream", "http://127.0.0.1:9")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    with process as proxy:
        assert resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE) == (wanted, hard)


def test_it_survives_running_out_of_descriptors(start):
    """It does not spin meanwhile, and serves again when there are some."""
    proxy = start()
    resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (64, 64))
    clients = []
    for _ in range(150):
        with contextlib.suppress(OSError):
            clients.append(Client(proxy.address))
    eventually(lambda: len(proxy.open_files()) >= 60)
    time.sleep(0.3)  # until the rest has been turned away
    assert share_of_a_processor(proxy.pid) < 0.5
    for client in clients:
        client.close()
    eventually(lambda: len(proxy.open_files()) < 30)
    for _ in range(5):
        with Client(proxy.address) as client:
            assert client.ask("/x", b"{}").answer().status == 200


def test_clients_that_leave_take_their_descriptors_along(start, upstream):
    """300 of them, in every phase, by FIN and by RST."""

    def script(peer, received):
        if b"/stream" in received.line:
            peer.send(CHUNKED)
            peer.wait_closed()
        elif b"/long" in received.line:
            peer.send(head(b"Content-Length: 1000") + b"x" * 10)
            peer.wait_closed()
        else:
            answer_ok(peer, received)

    proxy = start(script=script)
    with Client(proxy.address) as client:
        assert client.ask("/x").answer().status == 200
    eventually(lambda: not sockets(proxy, without=1))
    before = len(proxy.open_files())
    for number in range(300):
        client = Client(proxy.address)
        client.ask(("/stream", "/long", "/x")[number % 3], b"{}")
        if number % 2:
            client.begin()
        client.leave(("fin", "rst")[number // 2 % 2])
    eventually(lambda: len(proxy.open_files()) <= before)
    with Client(proxy.address) as client:
        assert client.ask("/x").answer().status == 200


def sockets(proxy, without):
    """How many sockets the proxy has besides its ``without`` listening ones."""
    return sum(name.startswith("socket:") for name in proxy.open_files()) - without
