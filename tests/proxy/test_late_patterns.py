"""A rule whose pattern takes too long: the real proxy goes on without it."""

from __future__ import annotations

import json
import signal

import pytest

from tests.core.document.test_search import LATE

from .harness import Client, Proxy, Upstream

pytestmark = pytest.mark.slow

CONFIG = rf"""
[[rule]]
name = "endless"
where = "system"
pattern = '(?P<volatile>(\w+\s?)+)\$END'
replacement = "0"

[[rule]]
name = "late"
where = "system"
pattern = '{LATE[0]}'
replacement = "0"

[[rule]]
name = "stamp"
where = "system"
pattern = 'stamp=\d+'
replacement = "stamp=0"
"""
SAID = (
    "warn: rule late is switched off until the next reload: its pattern took longer than "
    '0.1 s. Fix it (cacheproxy rules check says more) or disable it: disable = ["late"]'
)


def body(stamp):
    return json.dumps({"messages": [], "system": f"stamp={stamp} {LATE[1]}"}).encode()


def page(address, path, method=b"GET"):
    with Client(address) as client:
        return json.loads(client.ask(path, method=method).answer().body)


@pytest.mark.slow
def test_the_request_and_all_others_go_on(tmp_path):
    """It is named, counted and not used again before a reload; a signal still ends the proxy."""
    (tmp_path / "config.toml").write_text(CONFIG)
    upstream = Upstream()
    proxy = Proxy(tmp_path, "--config", "config.toml", "--upstream", upstream.url)

    def ask(stamp):
        with Client(proxy.address) as client:
            assert client.ask("/v1/messages", body(stamp)).answer().status == 200
        while b"stamp" not in (received := upstream.received()).body:
            pass
        assert received.body == body(0)

    try:
        with proxy:
            ask(1)
            ask(2)
            proxy.wait_for(SAID)
            assert proxy.lines.count(SAID) == 1
            failures = page(proxy.address, "/_cacheproxy/health")["failures"]
            assert failures == {
                "late": {"failed": 1, "timed_out": 1, "dropped": 0, "left_out": True}
            }
            page(proxy.address, "/_cacheproxy/reload", b"POST")
            failures = page(proxy.address, "/_cacheproxy/health")["failures"]
            assert failures["late"]["left_out"] is False
            mark = proxy.mark()
            ask(3)
            proxy.wait_for(SAID, mark)
            proxy.signal(signal.SIGTERM)
            assert proxy.ended() == 0
    finally:
        upstream.close()
