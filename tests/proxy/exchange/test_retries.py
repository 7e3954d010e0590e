"""The retries of real clients are known as such, headers included.

``retries.jsonl``: what they sent, and sent again, to a server that broke off or did not answer;
long texts and all tools but the first are cut.
"""

import json
from pathlib import Path

import pytest

from cacheproxy.core.conversation.owner import Owners
from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.http1.headers import lasting
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange.holding import asks_the_same

LINES = Path(__file__).with_name("retries.jsonl").read_text(encoding="utf-8").splitlines()
RETRIES = {one["client"]: one["sent"] for one in map(json.loads, LINES)}


def request(sent):
    headers = tuple((name.encode(), value.encode()) for name, value in sent["headers"])
    return Request("POST", sent["target"], headers, json.dumps(sent["body"]).encode())


@pytest.mark.parametrize("client", RETRIES)
def test_it_joins(client):
    """Claude Code's comes without ``stream`` in the end."""
    first, *others = map(request, RETRIES[client])
    assert others
    for other in others:
        assert Owners().of(first, by_address=True) == Owners().of(other, by_address=True)
        assert lasting(first.headers) == lasting(other.headers)
        assert session_of(first) == session_of(other)
        assert asks_the_same(first, other)


def test_one_without_a_stream_is_among_them():
    (claude,) = (sent for name, sent in RETRIES.items() if "stalls" in name)
    assert {one["body"]["stream"] for one in claude} == {True, False}
