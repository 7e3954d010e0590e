"""A proxy that stops answers what was on its way: a balancer would tell its client of a reset."""

from __future__ import annotations

import signal
import socket

import pytest

from tests.proxy.harness import Client, Proxy, Upstream, sound_upstream, whole

pytestmark = pytest.mark.slow


def test_a_connection_that_was_just_made_may_ask_once(tmp_path):
    """One that has asked before is closed at once; nobody new is let in."""
    with sound_upstream() as upstream, Proxy(tmp_path, "--upstream", upstream.url) as proxy:
        assert isinstance(upstream, Upstream)
        upstream.reset(lambda peer, _: peer.send(whole(b"{}", b"Content-Type: application/json")))
        with Client(proxy.address) as used, Client(proxy.address) as fresh:
            assert used.ask("/v1/models", method=b"GET").answer(method=b"GET").status == 200
            proxy.signal(signal.SIGTERM)
            assert used.wait_closed()
            answer = fresh.ask("/v1/models", method=b"GET").answer(method=b"GET")
            assert answer.status == 200
            assert fresh.wait_closed()
            with pytest.raises(OSError):  # noqa: PT011 - refused, or reset
                socket.create_connection(proxy.address, timeout=5).close()
