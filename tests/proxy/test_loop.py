"""An upstream that leads back to the proxy ends in 508, not in all the descriptors there are."""

import json

import pytest

from .harness import Client, Proxy, free_port

pytestmark = pytest.mark.slow


def test_two_proxies_in_a_circle(tmp_path):
    """The request goes round once; the client is told why in its dialect."""
    port = free_port()
    first_arguments = ("--upstream", f"http://127.0.0.1:{port}")
    with (
        Proxy(tmp_path, *first_arguments) as first,
        Proxy(tmp_path, "--upstream", first.url, port=port) as second,
    ):
        before = len(first.open_files())
        for proxy in (first, second):
            answer = proxy.ask("/v1/messages", b"{}")
            assert (answer.status, answer.end) == (508, "whole")
            body = json.loads(answer.body)
            assert body["type"] == "error"
            assert "loop" in body["error"]["message"]
        assert len(first.open_files()) <= before + 2


def test_a_proxy_whose_upstream_is_itself(tmp_path):
    """It starts, says so, and uses a few descriptors to answer."""
    port = free_port()
    with Proxy(tmp_path, "--upstream", f"http://localhost:{port}", port=port) as proxy:
        assert "the upstream is this proxy itself" in proxy.output
        with Client(proxy.address) as client:
            most = 0
            client.ask("/v1/chat/completions", b"{}")
            while not (answer := client.peek()):
                most = max(most, len(proxy.open_files()))
        assert answer.startswith(b"HTTP/1.1 508 Loop Detected")
        assert most < 60


def test_a_chain_of_proxies_is_no_loop(proxy, upstream, tmp_path):
    """Each leaves its own mark in Via."""
    with Proxy(tmp_path, "--upstream", proxy.url) as before:
        upstream.reset()
        assert before.ask("/x", b"{}").status == 200
    first, second = upstream.received().values(b"via")
    assert first != second
