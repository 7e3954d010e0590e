"""A client that does not read, or reads slowly, holds up its own upstream and nobody else."""

import json
import time

import pytest

from .conftest import RULES, proxy_with
from .harness import CHUNKED, Client, Proxy, Upstream, answer_ok, eventually, whole
from .trickle import Trickle, pieces_meanwhile

pytestmark = pytest.mark.slow

MIB = 1 << 20


def test_clients_that_do_not_read_stall_their_upstreams(connect, serve, proxy):
    """Each upstream soon stops sending; the proxy holds next to nothing of what it sent."""
    sent = {}

    def script(peer, received):
        if b"/other" in received.line:
            answer_ok(peer, received)
            return
        peer.send(CHUNKED)
        sent[peer] = 0
        while sent[peer] < 64 * MIB:
            peer.chunk(b"x" * 65_536)
            sent[peer] += 65_536

    def stalled():
        seen = dict(sent)
        time.sleep(0.3)
        return len(seen) == 6 and seen == sent

    serve(script)
    before = proxy.memory()
    for _ in range(6):
        connect(buffer=1 << 14).ask()
    eventually(stalled)
    assert max(sent.values()) < 48 * MIB  # a kernel may hold 32 MiB for a socket
    assert proxy.memory() - before < 10 * MIB
    assert connect().ask("/other").answer().status == 200  # nobody else is stalled


impatient = proxy_with("--idle-timeout", "0.5")


def test_a_client_that_pauses_longer_than_the_limit_gets_every_byte(impatient, serve):
    """Even where all of the answer has been written, and only the kernel still holds it."""
    body = b"y" * (6 * MIB)
    serve(lambda peer, _: peer.send(whole(body)))
    with Client(impatient.address, buffer=1 << 14) as client:
        client.ask("/v1/messages", b"{}")
        time.sleep(1.5)
        answer = client.answer()
    assert (answer.end, answer.body) == ("whole", body)


@pytest.mark.parametrize("kind", ["pieces", "one text"])
def test_a_huge_body_does_not_stop_a_stream(tmp_path, kind):
    """Twenty megabytes are read, looked at, edited, judged and captured; a stream goes on."""
    upstream = Upstream()
    text = "lorem\nipsum é " * (20 * MIB // 16 if kind == "one text" else 40)
    count = 1 if kind == "one text" else 20 * MIB // 650
    messages = [{"role": "user", "content": text}] * count
    body = json.dumps({"system": "stamp=7", "messages": messages}).encode()
    upstream.reset(trickle := Trickle(answer_ok))
    (tmp_path / "config.toml").write_text(RULES)
    arguments = ("--upstream", upstream.url, "--capture", "captures", "--config", "config.toml")

    def post():
        assert proxy.ask("/v1/messages", body).status == 200

    with Proxy(tmp_path, *arguments) as proxy, trickle.through(proxy) as pieces:
        assert any(pieces_meanwhile(pieces, post) > 4 for _ in range(4))
    upstream.close()
