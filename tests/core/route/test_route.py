"""Which route a request takes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.route.facts import Facts, RequestKind
from cacheproxy.core.route.route import (
    EVERYWHERE,
    NAME,
    KnownConversation,
    Price,
    Route,
    Target,
    TargetState,
    asking_for,
    choose,
    fits,
    ranked,
    routes_of,
)
from cacheproxy.testing import request

FACTS = Facts("claude", "claude-opus-4", has_tools=True, tokens=20_000, kind=RequestKind.MAIN)


@pytest.mark.parametrize(
    ("route", "takes"),
    [
        (Route("all"), True),
        (Route("client", client="claude"), True),
        (Route("client", client="co*"), False),
        (Route("model", model="claude-*-4"), True),
        (Route("model", model="gpt*"), False),
        (Route("tools", has_tools=True), True),
        (Route("tools", has_tools=False), False),
        (Route("long", least=20_000), True),
        (Route("long", least=20_001), False),
        (Route("short", most=20_000), True),
        (Route("short", most=19_999), False),
        (Route("kind", kinds=frozenset({RequestKind.TITLE, RequestKind.MAIN})), True),
        (Route("kind", kinds=frozenset({RequestKind.TITLE})), False),
        (Route("both", client="claude", most=1), False),
    ],
)
def test_all_that_a_route_says_has_to_match(route, takes):
    """What it does not say matches everything."""
    assert route.matches(FACTS) is takes
    assert next(routes_of([route], FACTS)) is (route if takes else EVERYWHERE)


def test_the_first_route_that_matches_is_taken():
    """In the order of the file."""
    routes = [Route("a", kinds=frozenset({RequestKind.TITLE})), Route("b"), Route("c")]
    assert next(routes_of(routes, FACTS)).name == "b"


@pytest.mark.parametrize(
    ("name", "pattern", "does"),
    [
        ("claude", "claude", True),
        ("claude", "*", True),
        ("", "*", True),
        ("claude-opus-4", "claude-*", True),
        ("qwen3", "qwen?", True),
        ("qwen", "qwen?", False),
        ("Claude", "claude", False),
        ("", "?*", False),
    ],
)
def test_a_star_is_any_text_and_a_question_mark_one_character(name, pattern, does):
    """Capital letters count."""
    assert fits(name, pattern) is does


def test_the_name_is_replaced_and_nothing_else():
    """Spaces, order and number spelling stay."""
    asked = request('{"max_tokens" : 1e1,"model": "claude-\\u0041", "messages": []}')
    after, report = asking_for(asked, "qwen3")
    assert after.body == b'{"max_tokens" : 1e1,"model": "qwen3", "messages": []}'
    assert report is not None
    assert (report.rule, [edit.path for edit in report.edits]) == (NAME, ["/model"])
    assert asking_for(after, "qwen3") == (after, None)


def test_a_request_that_names_none_goes_as_it_came():
    """Or that cannot be read."""
    for body in ('{"messages": []}', '{"model": 7}', "nonsense", ""):
        asked = request(body)
        assert asking_for(asked, "qwen3") == (asked, None)


THREE = [Target("a"), Target("b"), Target("c")]
NAMES = ["a", "b", "c"]
UP = TargetState()
DOWN = TargetState(is_up=False)
SEVERAL = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8, unique=True)


def order(
    targets,
    known=KnownConversation("k"),  # noqa: B008 (frozen)
    facts=Facts(tokens=1000),  # noqa: B008 (frozen)
    route=EVERYWHERE,
    **standing,
):
    return choose(targets, lambda name: standing.get(name, UP), facts, route, known)


def names(*given, **more):
    return list(order(*given, **more).names)


def test_a_new_conversation_goes_where_its_key_belongs():
    """And next to the next."""
    for key in ("k", "l", "m", "n"):
        assert names(THREE, KnownConversation(key)) == ranked(key, NAMES)


def test_a_conversation_stays_where_its_prefix_is():
    """Whatever its key says."""
    for home in NAMES:
        found = names(THREE, KnownConversation("k", home))
        assert found[0] == home
        assert found[1:] == [name for name in ranked("k", NAMES) if name != home]


def test_it_leaves_a_server_that_is_down():
    """Which comes last: it may have just come back."""
    first, second, third = ranked("k", NAMES)
    assert names(THREE, KnownConversation("k", first), **{first: DOWN}) == [second, third, first]
    assert sorted(names(THREE, a=DOWN, b=DOWN, c=DOWN)) == NAMES


def test_a_new_one_leaves_a_server_that_is_silent():
    """It may be busy, so its own stay; where all are silent, nothing changes."""
    first, second, third = ranked("k", NAMES)
    silent = TargetState(is_silent=True)
    assert names(THREE, KnownConversation("k"), **{first: silent}) == [second, third, first]
    assert names(THREE, KnownConversation("k", first), **{first: silent}) == [first, second, third]
    assert names(THREE, KnownConversation("k"), a=silent, b=silent, c=silent) == ranked("k", NAMES)


def test_it_leaves_a_server_whose_context_it_has_outgrown():
    """Where none has the room, the widest one says so itself."""
    narrow, wide = TargetState(context=8192), TargetState(context=32_768)
    long, longest = Facts(tokens=8000), Facts(tokens=40_000)
    assert names(THREE, KnownConversation("k", "a"), long, a=narrow, b=wide, c=narrow) == ["b"]
    assert names(THREE, KnownConversation("k", "a"), longest, a=narrow, b=wide, c=narrow) == ["b"]
    assert (
        names(THREE, KnownConversation("k", "a"), Facts(tokens=7000), a=narrow, b=wide, c=narrow)[0]
        == "a"
    )


def test_a_model_goes_to_those_who_have_it():
    """One that nobody names goes to all: they say themselves that they do not have it."""
    targets = [Target("a", ("qwen*",)), Target("b", ("gpt-oss", "glm*")), Target("c", ("glm-4",))]
    assert names(targets, facts=Facts(model="qwen3")) == ["a"]
    assert sorted(names(targets, facts=Facts(model="glm-4"))) == ["b", "c"]
    assert sorted(names(targets, facts=Facts(model="other"))) == NAMES
    assert sorted(names(targets)) == NAMES


def test_a_route_leads_to_its_own_upstreams_alone():
    """Also where they are down."""
    route = Route("r", ("b", "c"))
    assert sorted(names(THREE, KnownConversation("k", "a"), route=route)) == ["b", "c"]
    assert sorted(names(THREE, route=route, b=DOWN, c=DOWN)) == ["b", "c"]


def test_a_fallback_is_used_only_while_all_others_are_down():
    """It is next where the only other one refuses; a route may lead to it by name."""
    targets = [*THREE[:2], Target("c", is_fallback=True)]
    for key in ("k", "l", "m", "n"):
        assert names(targets, KnownConversation(key)) == [*ranked(key, NAMES[:2]), "c"]
    found = order(targets, a=DOWN, b=DOWN)
    assert (found.names[0], found.is_fallback) == ("c", True)
    assert not order(targets, a=DOWN).is_fallback
    assert not order(targets, a=DOWN, b=DOWN, c=DOWN).is_fallback
    assert names(targets, route=Route("r", ("c",))) == ["c"]


def test_a_fallback_in_a_pool_is_one_too():
    """Of several named by a route, it gets none while another is up, and then before others."""
    targets = [*THREE, Target("d", is_fallback=True), Target("e", is_fallback=True)]
    route = Route("r", ("a", "d"))
    for key in ("k", "l", "m", "n"):
        assert names(targets, KnownConversation(key), route=route) == ["a", "d"]
        found = order(targets, KnownConversation(key), route=route, a=DOWN)
        assert (found.names, found.is_fallback) == (("d", "a"), True)
        assert order(targets, KnownConversation(key), route=Route("r", ("a",)), a=DOWN).is_fallback


def test_a_model_that_nobody_has_is_not_looked_for_far_away():
    """Who listed what a remote upstream serves meant nothing else to leave the network."""
    targets = [Target("a", ("qwen*",)), Target("b", ("claude-*",), is_remote=True)]
    for key in ("k", "l", "m", "n"):
        assert names(targets, KnownConversation(key), Facts(model="other")) == ["a"]
    assert names(targets, facts=Facts(model="claude-x")) == ["b"]
    assert names(targets[1:], facts=Facts(model="other")) == ["b"]


def test_latency_prefers_the_one_that_is_done_first():
    """By its speed and those that wait; one of which nothing is known is tried."""
    route = Route("r", ("a", "b", "c"), prefer="latency")
    fast, slow = TargetState(speed=2000.0), TargetState(speed=100.0)
    assert names(THREE, route=route, a=slow, b=fast, c=slow)[0] == "b"
    busy = fast._replace(waiting=40)
    assert names(THREE, route=route, a=slow, b=busy, c=slow)[0] in ("a", "c")
    assert names(THREE, route=route, a=slow, b=fast)[0] == "c"
    assert names(THREE, KnownConversation("k", "a"), route=route, a=slow, b=fast)[0] == "a"


def test_cost_prefers_the_cheapest_and_a_ceiling_leaves_the_others_out():
    """What is cached counts at its own price."""
    targets = [Target("a", price=Price(3.0, 15.0, 0.3)), Target("b", price=Price(1.0, 5.0))]
    route = Route("r", ("a", "b"), prefer="cost")
    assert names(targets, route=route) == ["b", "a"]
    ceiling = Route("r", ("a", "b"), max_cost=0.0015)
    assert names(targets, route=ceiling) == ["b"]
    assert sorted(names(targets, KnownConversation("k", "a", 900), route=ceiling)) == ["a", "b"]
    assert names(targets, facts=Facts(tokens=10_000), route=ceiling) == []


@pytest.mark.parametrize(
    ("reused", "price"), [(0, 3.0), (1_000_000, 0.3), (500_000, 1.65), (9_000_000, 0.3)]
)
def test_a_price_is_of_a_million_tokens(reused, price):
    """Cached ones have their own, if one is given."""
    assert Price(3.0, 15.0, 0.3).of_prompt(1_000_000, reused) == pytest.approx(price)
    assert Price(3.0, 15.0).of_prompt(1_000_000, reused) == pytest.approx(3.0)
    assert Price(3.0, 15.0, 0.3).of(1_000_000, reused, 100_000) == pytest.approx(price + 1.5)


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


def test_keys_spread_evenly():
    """1,000 keys over three names: each has a third, within a few standard deviations of 15."""
    counts = Counter(ranked(f"key{number}", ["a", "b", "c"])[0] for number in range(1000))
    assert all(260 < count < 410 for count in counts.values())
    moved = Counter(
        ranked(f"key{n}", ["a", "b"])[0]
        for n in range(1000)
        if ranked(f"key{n}", ["a", "b", "c"])[0] == "c"
    )
    assert set(moved) == {"a", "b"}
