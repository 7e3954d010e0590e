"""Where two prompts part, and how a request is akin to another."""

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.divergence import Kinship, parting, taken_back
from cacheproxy.core.conversation.lanes import Before, Lane
from cacheproxy.core.dialects.content import Part, Segment
from cacheproxy.core.prompt.prompt import Made, Prompt, PromptOrder, prompt_of
from cacheproxy.core.prompt.segments import Piece, PieceRun, piece_of
from cacheproxy.testing import request

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


def test_what_a_client_took_back_of_long_texts_is_found_by_their_lines():
    """Word by word, 20 MB took seven seconds."""
    kept, gone = "a line that stays\n" * 40_000, "a line that goes\n" * 40_000
    before, after = prompt("hi", kept + gone), prompt("ho", kept)
    assert taken_back(before, parting(before, after), after) == len("i" + gone)


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


def test_a_turn_parts_where_the_earlier_ends():
    left = parting(*(prompt_of(request(body(messages=said))) for said in (("hi",), ("hi", "ho"))))
    assert left.was is None
    assert left.path == "/messages/1/role"


def asked(*texts, system=("be kind",)):
    """A request, and its prompt; who says ``a…`` is the model."""
    said = [("assistant" if text.startswith("a") else "user", text) for text in texts]
    messages = [("system", text) for text in system] + said
    body = {"model": "m", "messages": [{"role": r, "content": text} for r, text in messages]}
    made = request(body, "/v1/chat/completions")
    return made, prompt_of(made)


def test_a_system_text_more_is_another_system():
    """Though the first ones are alike, on either side."""
    one, two = asked("hi"), asked("hi", system=("be kind", "be brief"))
    assert Kinship(*one).has_system_of(asked("ho")[1])
    assert not Kinship(*one).has_system_of(two[1])
    assert not Kinship(*two).has_system_of(one[1])


def test_an_answer_in_two_messages_is_one():
    """Counted from where it begins."""
    kin = Kinship(*asked("hi", "a1", "a2", "so?", "a3"))
    assert [kin.answers(), kin.answers(2), kin.answers(3), kin.answers(2, 4)] == [2, 2, 1, 1]


def test_of_branches_only_the_last_are_kept():
    """Each holds a prompt: a client that takes back turn after turn must not fill the memory."""
    first = asked("hi", "a1", "x" * 2000)
    lane, before = Lane(0, first[0], first[1], first[1], 1), None
    for number in range(9):
        sent = asked("hi", f"a{number}", f"{number} " * 2000)[1]
        before, last = Before(sent, sent, 2000), before
        lane.before, lane.branches = before, lane.branches_with(before, last)
    assert [one.sent.pieces[-2].segments[-1].text for one in lane.branches] == ["a5", "a6", "a7"]
