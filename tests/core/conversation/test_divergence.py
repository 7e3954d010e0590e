"""Where two prompts part, and how a request is akin to another."""

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.lanes import Before, Lane
from cacheproxy.core.dialects.content import Part, Segment
from cacheproxy.core.prompt.prompt import Made, Prompt, PromptOrder, prompt_of
from cacheproxy.core.prompt.segments import Piece, PieceRun, piece_of
from cacheproxy.testing import request
from tests import transcript

pieces = st.lists(st.text("ab", max_size=4), max_size=6)


def prompt(*texts, model="m"):
    segments = [Segment(Part.MESSAGES, f"/{i}", text) for i, text in enumerate(texts)]
    run = PieceRun().then([piece_of(Part.MESSAGES, [each]) for each in segments])
    return Prompt(model, Made(Piece(Part.TOOLS), {}, run))


def shared(one, other):
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@given(one=pieces, other=pieces)
def test_prompts_part_where_their_texts_do(one, other):
    """However they are cut into segments; those that are named hold the place."""
    left = parting(prompt(*one), prompt(*other))
    assert left.shared == shared("".join(one), "".join(other))
    assert (left.was is None) == "".join(other).startswith("".join(one))
    for segment, at, texts in ((left.was, left.was_at, one), (left.now, left.now_at, other)):
        if segment is not None:
            before = sum(len(text) for text in texts[: int(segment.path[1:])])
            assert before + at == left.shared
        else:
            assert left.shared == len("".join(texts))


def body(tools=1, system=("be",), messages=("hi",)):
    return {
        "tools": [{"name": f"t{i}"} for i in range(tools)],
        "system": [{"type": "text", "text": text} for text in system],
        "messages": [{"role": "user", "content": text} for text in messages],
    }


@pytest.mark.parametrize("order", PromptOrder)
@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (body(), body(system=("go",)), Part.SYSTEM),
        (body(), body(tools=2), Part.TOOLS),
        (body(tools=2), body(tools=1), Part.TOOLS),
        (body(tools=2), body(tools=0), Part.TOOLS),
        (body(tools=0), body(tools=2), Part.TOOLS),
        (body(system=("be", "good")), body(), Part.SYSTEM),
        (body(), body(system=("be", "good")), Part.SYSTEM),
        (body(), body(messages=("ho",)), Part.MESSAGES),
        (body(messages=("hi", "ho")), body(), Part.MESSAGES),
    ],
)
def test_a_break_is_named_after_the_part_that_changed(before, after, part, order):
    """Also where its last segment has gone and the next part follows sooner."""
    left = parting(prompt_of(request(before), order), prompt_of(request(after), order))
    assert left.part is part
    assert left.was is not None


def asked(*texts, system=("be kind",)):
    """A request, and its prompt; who says ``a…`` is the model."""
    said = [("assistant" if text.startswith("a") else "user", text) for text in texts]
    messages = [("system", text) for text in system] + said
    body = {"model": "m", "messages": [{"role": r, "content": text} for r, text in messages]}
    made = request(body, "/v1/chat/completions")
    return made, prompt_of(made)


def test_of_branches_only_the_last_are_kept():
    """Each holds a prompt: a client that takes back turn after turn must not fill the memory."""
    first = asked("hi", "a1", "x" * 2000)
    lane, before = Lane(0, first[0], first[1], first[1], 1), None
    for number in range(9):
        sent = asked("hi", f"a{number}", f"{number} " * 2000)[1]
        before, last = Before(sent, sent, 2000), before
        lane.before, lane.branches = before, lane.branches_with(before, last)
    assert [one.sent.pieces[-2].segments[-1].text for one in lane.branches] == ["a5", "a6", "a7"]


def test_all_that_is_said():
    transcript.holds("divergence.txt", globals())
