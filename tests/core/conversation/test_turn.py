"""Turns that another proxy must have had."""

import pytest

from cacheproxy.core.conversation.turn import was_elsewhere
from cacheproxy.plugin.packages import Packages
from cacheproxy.testing import request
from tests.core.conversation.proxied import NAMED, Proxy

NAMES = {"u": "user", "a": "assistant"}


def told(requests, plan=None):
    """What is said of each request of one proxy."""
    proxy, found = Proxy(plan=plan), []
    for asked in requests:
        if turn := proxy.prepared(asked).turn:
            found.append(was_elsewhere(turn))
            proxy(asked)
    return found


def said(roles):
    """A request with a message for each letter: user, assistant."""
    messages = [{"role": NAMES[role], "content": f"{at} said"} for at, role in enumerate(roles)]
    return request({"messages": messages}, headers=NAMED)


@pytest.mark.parametrize(
    ("turns", "wanted"),
    [
        (("u", "uau", "uauau"), [False, False, False]),
        (("u", "uauau"), [False, True]),
        (("u", "uaauu"), [False, False]),  # two messages of one answer
        (("u", "u", "uau"), [False, False, False]),  # sent again
        (("uauau",), [False]),  # nobody knows
        (("uau", "ua"), [False, False]),  # gone back
    ],
)
def test_the_model_spoke_twice(turns, wanted):
    """Between two requests seen here it speaks once."""
    assert told(map(said, turns)) == wanted


def test_no_recorded_conversation_was_elsewhere_but_half_of_one(captured):
    """Each seen whole; and every second turn of some."""
    plan = Packages().load().plan()
    for name, requests in captured.items():
        assert not any(told(requests, plan)), name
    assert any(told(captured["codex-resume"][::2], plan))
    assert any(told(captured["pi-datechange"][::2], plan))
