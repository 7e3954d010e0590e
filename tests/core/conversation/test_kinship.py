"""How a request is akin to another: by system text and answers; how many branches are kept."""

from cacheproxy.core.conversation.divergence import Kinship
from cacheproxy.core.conversation.lanes import Before, Lane
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.testing import request


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
