"""What rules win at a turn that broke, what they leave, and when that is too little."""

import pytest

from cacheproxy.core.diagnose.cure import won_by, worth
from cacheproxy.core.diagnose.propose import propose
from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.rules.rule import Rule
from tests import transcript
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


def test_all_that_is_said():
    transcript.holds("cure.txt", globals())
