"""One exchange does not hold up another."""

from __future__ import annotations

import json

import pytest

from .conftest import RULES
from .harness import Client, Proxy, Upstream, answer_ok
from .trickle import Trickle, pieces_meanwhile

pytestmark = pytest.mark.slow


def conversation(size, number):
    """A JSON body of about ``size`` bytes in small pieces, as agents send them."""
    text = {"type": "text", "text": "lorem \\n ipsum \u00e9 " * 30}
    messages = [{"role": "user", "content": [text] * 3} for _ in range(size // 2000)]
    body = {"model": "m", "system": f"stamp={number}", "messages": messages, "tools": [{}]}
    return json.dumps(body).encode()


@pytest.mark.parametrize("rules", [False, True])
def test_a_large_body_does_not_stop_a_stream(tmp_path, rules):
    """Looking at seven megabytes of JSON takes longer than a token may wait, so threads do it."""
    upstream = Upstream()
    (tmp_path / "config.toml").write_text(RULES if rules else "")
    body = conversation(7 << 20, 7)
    assert len(body) > 3 << 20
    arguments = ("--config", "config.toml", "--upstream", upstream.url)
    upstream.reset(trickle := Trickle(answer_ok))

    def post():
        with Client(proxy.address) as client:
            client.ask("/v1/messages", body, b"X-Session-Id: one").answer()

    with Proxy(tmp_path, *arguments) as proxy, trickle.through(proxy) as pieces:
        came = [pieces_meanwhile(pieces, post) for _ in range(5)]
    upstream.close()
    assert max(came) > 4, came
