"""The embedded server and a proxy for newcomers."""

import socket

from cacheproxy_demo import serving

from cacheproxy.http_client import USUAL


def test_what_to_try_names_a_proxy_that_is_elsewhere():
    """At its usual place the commands find it by themselves."""
    usual = "\n".join(serving.to_try(USUAL))
    assert f"curl {USUAL}/v1/chat/completions" in usual
    assert "cacheproxy run claude" in usual
    assert "--proxy" not in usual
    other = "\n".join(serving.to_try("http://127.0.0.1:4000"))
    assert "cacheproxy run --proxy http://127.0.0.1:4000 claude" in other
    assert "cacheproxy doctor --proxy http://127.0.0.1:4000" in other


def test_a_taken_port_is_no_hindrance(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        monkeypatch.setattr(serving, "USUAL", f"http://127.0.0.1:{taken}")
        assert serving._port() == 0
    assert serving._port() == taken
