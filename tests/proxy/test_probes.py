"""Doctor's test requests: relayed and edited like any other, and kept in no record."""

import json
import re

import pytest

from cacheproxy.core.conversation.session import DOCTOR

from .conftest import RULES
from .harness import Proxy, whole

pytestmark = pytest.mark.slow

ANSWER = (
    b'{"choices":[{"message":{"role":"assistant","content":"4"},"finish_reason":"stop"}],"usage":'
    b'{"prompt_tokens":640,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":600}}}'
)
BODY = b'{"model":"m","messages":[{"role":"system","content":"stamp=7"},{"role":"user"}]}'
PATH = "/v1/chat/completions"


def test_a_probe_is_relayed_and_recorded_nowhere(tmp_path, upstream):
    """No exchange, no session, no log line, no metric, no total, no capture, no rule's count.

    Nor is it shown while it is under way.
    """
    (tmp_path / "config.toml").write_text(RULES)
    arguments = ("--config", "config.toml", "--capture", "captures", "--state-dir", "state")
    with Proxy(tmp_path, *arguments, "--upstream", upstream.url) as proxy:

        def ask(*headers):
            answer = proxy.ask(PATH, BODY, *headers)
            assert (answer.status, answer.body) == (200, ANSWER)
            while (received := upstream.received()).line.split()[1] != PATH.encode():
                pass  # the proxy's own questions
            return received

        running = []

        def answer(peer, received):
            if received.line.split()[1] == PATH.encode():
                running.append(len(proxy.page("data?window=15m")["prefills"]))
            peer.send(whole(ANSWER, b"Content-Type: application/json"))

        upstream.reset(answer)
        plain = ask(b"User-Agent: opencode/1", b"X-Session-ID: s")
        secret = proxy.page("health")["probe"].encode()
        assert len(secret) == 32
        probe = ask(b"X-Cacheproxy-Probe: " + secret, b"User-Agent: " + DOCTOR.encode() + b"/1")
        later = ask(b"User-Agent: opencode/1", b"X-Session-ID: s")
        assert probe.body == plain.body == later.body != BODY  # edited by the same rule
        assert running == [1, 0, 1]
        assert not any(name.lower().startswith(b"x-cacheproxy") for name, _ in probe.headers)
        proxy.wait_for("#2")
        exchanges = proxy.page("exchanges")["exchanges"]
        shown = [(one["number"], one["client"], one["turn"]) for one in exchanges]
        assert shown == [(1, "opencode", 1), (2, "opencode", 2)]
        shown = json.dumps(proxy.page("data?window=15m"))
        metrics = proxy.ask("/_cacheproxy/metrics", None, method=b"GET").body.decode()
        assert re.search(r'cacheproxy_requests_total\{[^}]*client="opencode"[^}]*\} 2\b', metrics)
        for text in (metrics, shown, proxy.output):
            assert DOCTOR not in text
        assert proxy.output.count(PATH) == proxy.output.count("#3") == 0
    kept = [
        line for file in (tmp_path / "captures").iterdir() for line in file.read_text().splitlines()
    ]
    assert len(kept) == 2
    assert DOCTOR not in "".join(kept)
