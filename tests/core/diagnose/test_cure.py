"""What rules win at a turn that broke, what they leave, and when that is too little."""

import pytest

from cacheproxy.core.diagnose.cure import Won, won_by, worth
from cacheproxy.core.diagnose.propose import propose
from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.rules.rule import Rule
from tests.core.diagnose.test_propose import apart
from tests.core.planting import chat, request

LONG = " ".join(f"word{number}" for number in range(600))
MORE = " ".join(f"more{number}" for number in range(600))
DATE = Rule("date", ("/messages/*/content",), r"Date: (?P<volatile>[\d-]+)", "0")


def step(*texts):
    """Two turns whose system texts are these, the second with an answer more."""
    bodies = chat(2)
    for body, text in zip(bodies, texts, strict=True):
        body["messages"][0]["content"] = text
    return tuple(map(request, bodies))


def dated(tail="", head="", more=""):
    return step(*(f"{head}Date: 2026-11-{day}\n{LONG}{tail * day}{more}" for day in (21, 22)))


def test_a_rule_that_takes_all_that_changed():
    won = won_by([DATE], dated(), tokens=2_000)
    assert (won.rest, won.rules, won.prompt, won.why_not) == (0, 1, 2_000, None)
    assert won.saved > 800
    assert "elsewhere" not in won.says


def test_what_changed_elsewhere_is_said():
    """The rule is worth it: more is saved than left."""
    won = won_by([DATE], dated(tail="x", more=" end" * 300), tokens=4_000)
    assert won.why_not is None
    assert 200 < won.rest < won.saved
    assert f" ≈{won.rest:,} more changed elsewhere." in won.says


def test_a_rule_that_leaves_more_than_it_saves_is_not_proposed():
    won = won_by([DATE], dated(tail="x", more=f" {MORE}{MORE}"), tokens=6_000)
    assert won.saved > 200
    assert won.rest > won.saved
    assert f"≈{won.rest:,} are read again for what changed elsewhere" in won.why_not


@pytest.mark.parametrize(
    ("prompt", "shared", "kept", "is_proposed"),
    [(1_000, 100, 299, False), (1_000, 100, 300, True), (90_000, 0, 899, False), (9, 5, 0, False)],
)
def test_next_to_nothing_is_not_proposed(prompt, shared, kept, is_proposed):
    why = Won(prompt, shared, kept).why_not
    assert (why is None) is is_proposed
    assert why is None or "too few" in why


def test_several_are_named_as_several():
    assert Won(1_000, 100, 900, tried=3, rules=2).says == (
        "without these 2 rules 10.0% of the prompt was unchanged, with them 90.0%: it saves "
        "≈800 tokens. Proven on 3 requests."
    )


def test_the_order_is_the_one_that_fits_what_was_reused():
    """A server that prints the system text first had little of it."""
    bodies = chat(2)
    for body, day in zip(bodies, (21, 22), strict=True):
        body["messages"][0]["content"] = f"Date: 2026-11-{day}\n{LONG}"
        body["tools"][0]["function"]["description"] = MORE
    pair = tuple(map(request, bodies))
    tokens = 4_000
    first, last = (
        won_by([DATE], pair, order, tokens) for order in (PromptOrder.SYSTEM_FIRST, None)
    )
    assert first.saved > last.saved + 1_000
    assert won_by([DATE], pair, tokens=tokens, reused=10) == first
    assert won_by([DATE], pair, tokens=tokens, reused=last.shared) == last


@pytest.mark.parametrize("length", [3, 600])
def test_proposals_of_a_capture_are_weighed(length):
    words = " ".join(f"word{number}" for number in range(length))
    pair = step(*(f"Be kind.\nCurrent date: 2026-11-{day}\n{words}" for day in (21, 22)))
    found = fields([pair])
    proposals, refusals = apart(propose(found, [pair], pair))
    assert (len(proposals), refusals) == (1, [])
    kept, refused = apart(worth(proposals, [pair]))
    assert len(kept) == (length > 3)
    assert [one.field for one in refused] == [one.field for one in proposals if one not in kept]
    assert all("too few" in one.why for one in refused)
