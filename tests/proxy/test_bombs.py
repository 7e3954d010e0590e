"""Small things that would become large if they were unpacked: no further than they may be."""

import gzip
import re
import zlib
from pathlib import Path

import pytest

from .conftest import MOST_MIB
from .harness import Client, Proxy, Upstream, whole

MIB = 1 << 20
GZIP = b"Content-Encoding: gzip"


def gigabytes(count):
    """So many of zeros, as the beginning of gzip: a mebibyte for each. The blocks are alike."""
    packer = zlib.compressobj(9, wbits=31)
    start = packer.compress(bytes(16 * MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(16 * MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * (count * 64 - 1)


BOMB = gzip.compress(b'{"system":"stamp=7","messages":[' + b" " * 64 * MIB)
BOMBS = {
    "of JSON": (BOMB, GZIP),
    "of 5 GiB": (gigabytes(5), GZIP),
    "nested": (zlib.compress(gigabytes(5)), b"Content-Encoding: gzip, deflate"),
}


class Peak:
    """The most memory that a proxy has held since now, in bytes."""

    def __init__(self, proxy):
        self._process = Path(f"/proc/{proxy.pid}")
        (self._process / "clear_refs").write_text("5")
        self._before = self._most()

    def _most(self):
        return int(re.search(r"VmHWM:\s+(\d+)", (self._process / "status").read_text())[1]) << 10

    def grown(self):
        return self._most() - self._before


pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs /proc"),
    pytest.mark.slow,
]


@pytest.mark.parametrize(("bomb", "said"), BOMBS.values(), ids=BOMBS)
def test_a_packed_request_is_unpacked_no_further_than_it_may_be_large(
    connect, upstream, proxy, bomb, said
):
    """It is refused like a plain one; what the proxy holds meanwhile is no more than that."""
    peak = Peak(proxy)
    for path in ("/v1/messages", "/v1/chat/completions"):
        assert connect().ask(path, bomb, said).answer().status == 413
    assert upstream.requests.empty()
    assert peak.grown() < (MOST_MIB + 8) * MIB + 3 * len(bomb)


@pytest.mark.parametrize("kind", [b"text/event-stream", b"application/json"])
def test_a_packed_answer_stays_packed(connect, respond, proxy, kind):
    """Though usage is read out of answers of these kinds."""
    respond(whole(BOMB, GZIP, b"Content-Type: " + kind))
    peak = Peak(proxy)
    answer = connect().ask("/v1/messages", b'{"messages":[]}').answer()
    assert (answer.body, answer.end) == (BOMB, "whole")
    assert answer.values(b"content-encoding") == [b"gzip"]
    assert peak.grown() < 16 * MIB


WIDE = b"[" + b"[]," * 1_500_000 + b"[]]"
"""Each of these is 64 bytes of Python, were they all read."""


def test_a_body_of_many_small_values_is_read_no_further_than_needed(connect, upstream, proxy):
    """Where a rule looks at it, too."""
    peak = Peak(proxy)
    for body in (WIDE, b'{"system":"stamp=7","messages":' + WIDE + b"}"):
        assert connect().ask("/v1/messages", body).answer().status == 200
        assert len(upstream.received().body) in (len(body), len(body) - 1)
    assert peak.grown() < 80 * MIB


def test_what_is_nested_too_deeply_is_not_translated_either(tmp_path):
    """It goes on as it came, and harms no other request."""
    upstream = Upstream()
    deep = b'{"model":"m","messages":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    plain = b'{"model":"m","max_tokens":1,"messages":[]}'
    with (
        Proxy(tmp_path, "--upstream", upstream.url, "--dialect", "openai") as proxy,
        Client(proxy.address) as client,
    ):
        upstream.reset(lambda peer, _: peer.send(whole(b"{}", status=b"400 Bad")))
        for body, path in ((deep, b"/v1/messages"), (plain, b"/v1/chat/completions")):
            assert client.ask("/v1/messages", body).answer().status == 400
            received = upstream.received()
            assert received.line == b"POST " + path + b" HTTP/1.1"
            assert (received.body == body) is (body is deep)
        assert "Traceback" not in proxy.output
    upstream.close()
