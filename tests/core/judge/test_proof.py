"""Two rendered prompts, compared: where they part, and what the template did there."""

import copy
import re
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.judge.evidence import Before, Evidence
from cacheproxy.core.judge.proof import Rendered, proof_of
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.prompt import prompt_of
from tests import transcript
from tests.core.planting import chat, prose, request
from tests.core.templates import inline

_WORD = re.compile(r"\w+|\W")


def tokenized(text):
    """A prompt of a server that takes each word and each sign for a token."""
    return Rendered(text, array("q", map(hash, _WORD.findall(text))))


def compared(one, two, was, now, *, off=0, has_clock=False):
    """The turn of two bodies; ``off``: tokens by which the answers' counts are others."""
    before, after = (prompt_of(request(body)) for body in (one, two))
    known = Before(before, before, len(was.tokens) + off)
    profile = Profile(clock="the date" if has_clock else "")
    return Evidence(known, after, after, Usage(len(now.tokens) + off), profile)


def proved(bodies, template, **other):
    """What two bodies prove of a ``template`` that is given the messages and the tools."""
    one, two = bodies
    was, now = (tokenized(template(body["messages"], body["tools"])) for body in bodies)
    return proof_of(was, now, compared(one, two, was, now, **other)), was, now


def talk():
    """Two turns: a tool was used in the first one, and the second begins with a user's words."""
    return chat(2)


def with_thoughts():
    bodies = talk()
    for body in bodies:
        for number, message in enumerate(body["messages"]):
            if message["role"] == "assistant":
                message["reasoning_content"] = prose(f"thought {number}")
    one = copy.deepcopy(bodies[1])
    one["messages"].pop()  # the model was asked once more, behind the tool's result
    return one, bodies[1]


def omitting(messages, tools=None):
    """As MiroThinker's: an older answer is left out, whatever stands behind it."""
    last = len(messages) - 1
    shown = [
        {**one, "content": "omitted"} if one["role"] == "assistant" and at < last - 4 else one
        for at, one in enumerate(messages)
    ]
    return inline(shown, tools)


def with_news_behind_an_answer():
    """A late message right behind the text that is left out."""
    _, one = talk()
    at = next(n for n, m in enumerate(one["messages"]) if m["role"] == "assistant")
    one["messages"][at]["content"] = prose("a long answer")
    one["messages"].insert(at + 1, {"role": "system", "content": prose("news of the day")})
    two = copy.deepcopy(one)
    two["messages"] += [{"role": "assistant", "content": "so"}, {"role": "user", "content": "go"}]
    return one, two


@pytest.mark.parametrize(
    ("line", "has_clock", "is_seen"),
    [
        ("It is 10:42:07.", False, True),
        ("It is 2026-11-22.", True, True),
        ("It is 2026-11-22.", False, False),
        ("It is 22 November 2026.", True, True),
        ("Ratio 10:42:07:99, port 8080.", True, False),
    ],
)
def test_a_time_in_the_template_is_found_though_both_are_rendered_at_once(line, has_clock, is_seen):
    """A date is one only where the template is known to print dates."""
    found, was, _ = proved(
        talk(), lambda messages, tools: f"{line}\n{inline(messages)}",
        has_clock=has_clock,
    )  # fmt: skip
    assert found.lost == 0
    assert (found.clock is not None) is is_seen
    if is_seen:
        place = was.text.index(line[6:-1])
        assert abs(found.clock - len(_WORD.findall(was.text[:place]))) <= 8


@pytest.mark.parametrize(
    ("off", "proves"), [(0, True), (-8, True), (8, True), (-9, False), (9, False), (4_000, False)]
)
def test_a_prompt_that_is_not_the_one_that_was_counted_proves_nothing(off, proves):
    """Marks around it may be counted or not; long ones may differ by a share."""
    assert (proved(talk(), inline, off=off)[0] is not None) is proves
    shown = tokenized("word " * 10_000)
    one = talk()[0]
    by_share = compared(one, one, shown, shown, off=5 * abs(off))
    assert (proof_of(shown, shown, by_share) is not None) is proves


LINES = st.lists(st.sampled_from(["a", "think>", '"name": "bash"', "10:42", "é🜁", "\ud83d", "\n"]))


@given(LINES, LINES, st.booleans())
def test_nonsense_is_compared_as_it_is(one, two, has_clock):
    was, now = tokenized("".join(one)), tokenized("".join(two))
    bodies = talk()
    found = proof_of(was, now, compared(*bodies, was, now, has_clock=has_clock))
    assert 0 <= found.shared <= min(found.before, found.now)
    assert (found.where is None) == (found.shared == found.before)
    assert found.clock is None or 0 <= found.clock <= found.now


def long_talk(turns):
    """Turns with thoughts, a late system message and a time of day; the head is another each."""
    filler = "a question of some length\n" * 100
    messages = []
    for number in range(turns):
        messages += [
            {"role": "user", "content": f"{number} 10:42:{number % 60:02} {filler}"},
            {"role": "system", "content": f"news {number} of the day"},
            {"role": "assistant", "content": "yes", "reasoning_content": f"{number} I wonder"},
        ]
    messages.append({"role": "user", "content": "go on"})
    heads = ({"role": "system", "content": f"You are {who}."} for who in ("an agent", "helpful"))
    return [{"tools": [], "messages": [head, *messages]} for head in heads]


class Searched(str):
    """A text that counts through how much of itself it was searched."""

    __slots__ = ("characters",)

    def find(self, mark, start=0, end=None):
        found = super().find(mark, start, end)
        until = found if found >= 0 else len(self) if end is None else end
        self.characters = getattr(self, "characters", 0) + until - start
        return found


def test_all_that_is_said():
    transcript.holds("proof.txt", globals())
