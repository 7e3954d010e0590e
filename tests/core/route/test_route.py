"""Which route a request takes."""

from __future__ import annotations

import pytest

from cacheproxy.core.route.facts import Facts, RequestKind
from cacheproxy.core.route.route import EVERYWHERE, NAME, Route, asking_for, fits, routes_of
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
