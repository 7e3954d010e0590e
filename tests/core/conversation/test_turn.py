"""Turns that another proxy must have had."""

import json

import pytest

from cacheproxy.core.conversation.plan import Plan
from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import was_elsewhere
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import run
from cacheproxy.plugin.packages import Packages

NO_RULES = Plan(())


def told(requests, plan=NO_RULES):
    """What is said of each request of one proxy."""
    store, found = Store(), []
    for request in requests:
        prepared = run(prepare(plan.clients.introduce(request), plan, store))
        if prepared.turn is None:
            continue
        found.append(was_elsewhere(prepared.turn))
        place = store.begin(prepared.turn, prepared.request)
        store.end(prepared.turn.session, place, None)
    return found


def said(roles):
    """A request with a message for each letter: user, assistant."""
    names = {"u": "user", "a": "assistant"}
    messages = [{"role": names[role], "content": f"{at} said"} for at, role in enumerate(roles)]
    body = json.dumps({"messages": messages}).encode()
    return Request("POST", "/v1/messages", ((b"x-session-id", b"s"),), body)


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
    plan = Packages.load().plan()
    for name, requests in captured.items():
        assert not any(told(requests, plan)), name
    assert any(told(captured["codex-resume"][::2], plan))
    assert any(told(captured["pi-datechange"][::2], plan))
