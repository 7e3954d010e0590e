"""The pages of conversations: of what a real judge and a real proxy have recorded."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.web.pages import PageError
from tests.observe.exchanges import body
from tests.proxy.harness import Proxy, eventually
from tests.web.asking import get, turn

from .sample import Shown
from .test_dashboard import judged, result


@pytest.fixture
def pages():
    shown, known = Shown(), Verdicts(Store())
    shown.finish(
        judged(known, 1, body("a"), usage=Usage(2000, 0, 5)),
        judged(known, 2, body("a", "b", "c"), usage=Usage(2010, 1990, 5)),
    )
    return shown.dashboard


def test_the_list_has_a_window_a_search_and_an_order(pages):
    def listed(**query):
        return json.loads(result(pages.conversations(query)).body)

    (found,) = listed(window="15m")["conversations"]
    assert (found["id"], found["turns"], found["recent"]) == ("agent/s", 2, [2000, 2010])
    assert listed(search="AGENT/S", sort="cost")["count"] == 1
    assert listed(search="nobody")["count"] == 0


@pytest.mark.parametrize(
    "query", [{"window": "1y"}, {"sort": "size"}, {"before": "1"}, {"before": "1-٣"}]
)
def test_a_query_that_makes_no_sense_is_told(pages, query):
    with pytest.raises(PageError):
        result(pages.conversations(query))


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
