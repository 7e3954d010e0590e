"""One exchange does not hold up another."""

from __future__ import annotations

import json
import threading
import time

import pytest

from .conftest import RULES
from .harness import CHUNKED, Client, Proxy, Upstream, whole

LOOSE = 1.0
"""Seconds: what a busy test machine may add is most of it; alone it is under 0.05."""


def conversation(size, number):
    """A JSON body of about ``size`` bytes in small pieces, as agents send them."""
    text = {"type": "text", "text": "lorem \\n ipsum \u00e9 " * 30}
    messages = [{"role": "user", "content": [text] * 3} for _ in range(size // 2000)]
    body = {"model": "m", "system": f"stamp={number}", "messages": messages, "tools": [{}]}
    return json.dumps(body).encode()


def gaps(proxy, upstream, body, seconds=1.0):
    """The gaps a stream's client sees while ``body`` is posted again and again; and how often."""

    def script(peer, received):
        if b"/trickle" not in received.line:
            peer.send(whole(b"{}", b"Content-Type: application/json"))
            return
        peer.send(CHUNKED)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            peer.chunk(b"data: {}\n\n")
            time.sleep(0.005)
        peer.send(b"0\r\n\r\n")

    upstream.reset(script)
    over, posted, found = threading.Event(), [], []

    def post():
        while not over.is_set():
            with Client(proxy.address) as client:
                client.ask("/v1/messages", body, b"X-Session-Id: one").answer()
                posted.append(1)

    with Client(proxy.address) as stream:
        pieces = stream.ask("/trickle").pieces(stream.begin())
        next(pieces)
        poster = threading.Thread(target=post)
        poster.start()
        last = time.monotonic()
        for _ in pieces:
            now = time.monotonic()
            found.append(now - last)
            last = now
        over.set()
        poster.join()
    return sorted(found), len(posted)


@pytest.mark.parametrize("rules", [False, True])
@pytest.mark.parametrize("size", [2 << 20, 7 << 20])
def test_a_large_body_does_not_stop_a_stream(tmp_path, rules, size):
    """Looking at two megabytes of JSON takes longer than a token may wait, so threads do it."""
    upstream = Upstream()
    (tmp_path / "config.toml").write_text(RULES if rules else "")
    body = conversation(size, 7)
    assert len(body) >= size / 2
    arguments = ("--config", "config.toml", "--upstream", upstream.url)
    with Proxy(tmp_path, *arguments) as proxy:
        found, posted = gaps(proxy, upstream, body)
    upstream.close()
    median, longest = (f"{gap * 1e3:.0f} ms" for gap in (found[len(found) // 2], found[-1]))
    told = f"{posted} bodies of {len(body):,} bytes: gaps median {median}, longest {longest}"
    print(told)  # noqa: T201 - for whoever runs pytest -s
    assert posted > 1
    assert found[-1] < LOOSE
