"""The pages of conversations: of what a real judge and a real proxy have recorded."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.observe.exchanges import body
from tests.proxy.harness import Proxy, eventually
from tests.web.asking import get, turn


@pytest.mark.slow
def test_a_proxy_shows_a_conversation_and_the_subagent_that_works_for_it(tmp_path, upstream):
    """Markup in a name is but text."""
    name = "<b>&/%"
    with Proxy(tmp_path, "--upstream", upstream.url) as proxy:
        own = b"X-Session-Id: " + name.encode()
        agent = b"User-Agent: somebody/1.0"
        turn(proxy, upstream, body("a"), 2000, 0, own, agent)
        turn(proxy, upstream, body("a", "b", "c"), 2010, 1990, own, agent)
        other = (b"X-Session-Id: sub", b"X-Parent-Session-Id: " + name.encode(), agent)
        turn(proxy, upstream, body("other", system="you help"), 50, 0, *other)

        def page(target):
            answer = get(proxy, target)
            assert answer.status == 200
            return json.loads(answer.body)

        listed = "/_cacheproxy/conversations"
        eventually(lambda: sum(one["turns"] for one in page(listed)["conversations"]) == 3)
        sub, main = page(listed)["conversations"]
        assert (sub["root"], main["branches"]) == (main["id"], 1)
        found = page(f"{listed}/{quote(main['id'], safe='')}")
        assert [each["turn"] for each in found["turns"]] == [1, 2]
        assert sum(found["turns"][1]["parts"].values()) == 2010
        assert found["branches"][0]["conversation"] == sub
        assert get(proxy, f"{listed}/nobody").status == 404
        assert get(proxy, f"{listed}/nobody?before=x").status == 400
        assert get(proxy, listed, method=b"POST", payload=b"").status == 405
