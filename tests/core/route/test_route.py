"""Which server a request goes to, and the key by which a conversation stays there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.route.facts import Facts
from cacheproxy.core.route.route import (
    EVERYWHERE,
    KnownConversation,
    Target,
    TargetState,
    choose,
    ranked,
)
from cacheproxy.core.route.stamp import root_key
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.fold import run
from cacheproxy.plugin import packages as packages_
from tests import installed, transcript

UP, DOWN = TargetState(), TargetState(is_up=False)
SEVERAL = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8, unique=True)


def order(*targets, key="k", home="", held=0, facts=None, route=EVERYWHERE, **standing):
    """What is chosen of ``targets``: names, or values, for a conversation of 1,000 tokens."""
    targets = [Target(one) if isinstance(one, str) else one for one in targets]
    known = KnownConversation(key, home, held)
    return choose(
        targets, lambda name: standing.get(name, UP), facts or Facts(tokens=1000), route, known
    )


def names(*targets, **more):
    return list(order(*targets, **more).names)


def key(client, identity, *headers):
    return root_key(Request("POST", "/v1/messages", headers), Session(client, identity))


def test_which_way_each_request_goes():
    transcript.holds("routes.txt", globals())


@given(st.text(max_size=40), SEVERAL, st.randoms())
def test_the_order_is_that_of_the_key_whatever_order_the_names_had(key, names, chance):
    """So that several proxies agree."""
    shuffled = list(names)
    chance.shuffle(shuffled)
    assert ranked(key, names) == ranked(key, shuffled)
    assert sorted(ranked(key, names)) == sorted(names)


@given(st.lists(st.text(max_size=12), max_size=30), SEVERAL, st.data())
def test_where_a_name_goes_away_only_its_own_keys_move(keys, names, data):
    """And each to the next in its order."""
    gone = data.draw(st.sampled_from(names))
    left = [name for name in names if name != gone]
    for key in keys:
        before, after = ranked(key, names), ranked(key, left)
        assert after == [name for name in before if name != gone]
        if before[0] != gone:
            assert after[0] == before[0]


def test_all_turns_of_a_recorded_conversation_have_one_key(captured):
    """At one proxy that saw all of them, and at one that saw none before; subagents as well."""
    packages = installed.packages()
    plan = packages.plan(packages_.choose(packages.normalizers((), BUILT_IN), (), ()))
    several = {"claude-twosessions": 3, "openclaw-gateway": 2}  # its subagent names no parent
    seen: dict[str, str] = {}
    for name, requests in captured.items():
        store, keys = Store(), set()
        for request in requests:
            plan.clients.introduce(request)
            first, fresh = (run(prepare(request, plan, s)) for s in (store, Store()))
            if first.turn is None:
                continue
            place = store.begin(first.turn, first.request)
            store.end(first.turn.session, place, None)
            found = root_key(first.request, first.turn.session)
            assert found == root_key(fresh.request, fresh.turn.session), name
            keys.add(found)
        assert len(keys) == several.get(name, 0 if name == "gemini-resume" else 1), name
        seen |= dict.fromkeys(keys, name)
    assert len(seen) > 30
