"""The words of a break, from its two requests."""

import json
import time

import pytest

from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.diagnose.texts import texts_of
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from tests import transcript
from tests.observe.exchanges import body


def pair(was, now, headers=()):
    made = (
        Request("POST", "/v1/messages", headers, json.dumps(said).encode()) for said in (was, now)
    )
    return Pair(*made, 2)


def shown(was, now, **more):
    found = texts_of(pair(was, now, **more), PromptOrder.TOOLS_FIRST)
    return found and tuple(
        ["".join(text for text, _ in line.parts) for line in side]
        for side in (found.was, found.now)
    )


@pytest.mark.parametrize("size", [2_000_000])
def test_a_prompt_of_two_megabytes_is_looked_at_without_much_work(size):
    """The work is bounded by what is shown, but for finding the place."""
    filler = "word " * (size // 5)
    was, now = (body("a", system=f"{filler}{day}{filler}") for day in (20, 21))
    both = pair(was, now)
    texts_of(both, PromptOrder.TOOLS_FIRST)  # reads the bodies
    started = time.process_time()
    found = texts_of(both, PromptOrder.TOOLS_FIRST)
    assert time.process_time() - started < 2  # it takes 0.05
    assert len(json.dumps([found.was, found.now])) < 6000


def test_all_that_is_said():
    transcript.holds("texts.txt", globals())
