"""``--memory`` bounds all that is remembered of conversations."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest

from cacheproxy.config import Config
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.request import Request
from cacheproxy.daemon.service import share_out
from cacheproxy.observe.judging import Judging
from tests.proxy.harness import Client, Proxy, Upstream

MIB = 1 << 20
_ROOM = 32 * MIB
"""What is no conversation: code that is first used, threads, the allocator's gaps."""


def test_a_conversation_of_20_mb_stays_read_by_default():
    """In 8,000 messages: read anew, each turn would take eight times the CPU."""
    store, memo = Store(), Memo()
    share_out(Config().memory, store, memo, Judging(None, print, store))
    said = [{"role": "user", "content": [{"type": "text", "text": "a, b (c)\n" * 250}]}] * 8000
    request = Request("POST", "/v1/messages", (), json.dumps({"messages": said}).encode(), memo)
    assert len(request.body) > 20e6
    assert request.document.scanned > 20e6
    assert replace(request).document.scanned < 1000


@pytest.mark.parametrize("mib", [16, 17, 192, 65_536])
def test_all_shares_together_are_what_is_allowed(mib):
    """And none is larger than that of conversations: to forget one costs most."""
    store, memo = Store(), Memo()
    judging = Judging(None, print, store)
    share_out(mib, store, memo, judging)
    shares = (store.most_bytes, memo.most_bytes, judging.most_waiting)
    assert sum(shares) == mib * MIB
    assert max(shares) == store.most_bytes


def body(number: int) -> bytes:
    """A request of 120 KB that no other begins like."""
    said = [{"role": "user", "content": f"{number} {at} " * 2500} for at in range(8)]
    return json.dumps({"model": "m", "messages": said}).encode()


@pytest.mark.slow
def test_hundreds_of_conversations_take_no_more_than_is_allowed(tmp_path):
    """36 MB of them, of which all would be kept several times; a reload says how much that is."""
    upstream, config = Upstream(), tmp_path / "config.toml"
    config.write_text("")
    with Proxy(tmp_path, "--config", "config.toml", "--upstream", upstream.url) as proxy:
        config.write_text("memory = 16")
        mark = proxy.mark()
        proxy.signal(signal.SIGHUP)
        assert "memory changed" in proxy.wait_for("reloaded", since=mark)
        with Client(proxy.address) as client:
            for number in range(320):
                named = b"X-Session-Id: s%d" % number
                assert client.ask("/v1/messages", body(number), named).answer().status == 200
                if number == 20:
                    before = proxy.memory()
        assert proxy.memory() - before < 16 * MIB + _ROOM
    upstream.close()
