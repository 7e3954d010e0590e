"""Two rendered prompts, compared: where they part, and what the template did there."""

import copy
import json
import re
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Rewrite, TokenCount
from cacheproxy.core.judge.evidence import Before, Evidence
from cacheproxy.core.judge.judge import parted_at
from cacheproxy.core.judge.proof import Rendered, proof_of
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.prompt import prompt_of
from tests.core.planting import chat, insert, plant, prose, request
from tests.core.templates import hoist, inline, thinking, tools_last

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


def numbered(line):
    """A template that begins with this line, and a number that is another each time."""
    count = iter(range(9))
    return lambda messages, tools: f"{line.format(next(count))}{inline(messages)}"


def growing(line):
    """A template that begins with this line and a count of the messages, and has the tools next."""
    return lambda messages, tools: (
        f"{line.format('x' * len(messages))}{json.dumps(tools)}{inline(messages)}"
    )


def with_thoughts():
    bodies = talk()
    for body in bodies:
        for number, message in enumerate(body["messages"]):
            if message["role"] == "assistant":
                message["reasoning_content"] = prose(f"thought {number}")
    one = copy.deepcopy(bodies[1])
    one["messages"].pop()  # the model was asked once more, behind the tool's result
    return one, bodies[1]


def test_a_template_that_drops_the_thinking_of_the_turn_before():
    one, two = with_thoughts()
    found, was, now = proved((one, two), thinking)
    assert found.rewrite is Rewrite.THINKING
    assert found.where.path == "/messages/2/reasoning_content"
    assert 0 < found.lost < found.before
    assert was.tokens[: found.shared] == now.tokens[: found.shared]
    assert was.tokens[found.shared] != now.tokens[found.shared]
    assert found.where.position == TokenCount(found.shared, "measured")
    assert "thought" not in found.where.path
    assert not found.fits


def test_a_template_that_is_asked_to_keep_thinking_from_now_on():
    """What had been dropped is read once more, and then no more."""
    _, one = with_thoughts()
    two = copy.deepcopy(one)
    two["messages"] += [
        {"role": "assistant", "content": prose("answer")},
        {"role": "user", "content": prose("more")},
    ]
    length = len(two["messages"])

    def asked(messages, tools=None):
        return thinking(messages, tools, keeps=lambda late, _: late or len(messages) == length)

    found, *_ = proved((one, two), asked)
    assert (found.rewrite, found.where.path) == (Rewrite.KEPT, "/messages/2/reasoning_content")


def test_a_template_that_writes_an_empty_block_where_nobody_thought():
    bodies = talk()
    bodies[0]["messages"] = bodies[1]["messages"][:-1]

    def empty(messages, tools=None):
        return thinking(messages, tools, empty=True)

    found, *_ = proved(bodies, empty)
    assert (found.rewrite, found.where.path) == (Rewrite.THINKING, "")


LATE = f"/messages/{len(talk()[1]['messages']) - 1}/content"


def with_news():
    one, two = talk()
    two["messages"].insert(-1, {"role": "system", "content": prose("news of the day")})
    return one, two


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
    ("bodies", "template", "rewrite", "path"),
    [
        (with_news_behind_an_answer(), omitting, Rewrite.OTHER, ""),
        (with_news(), hoist, Rewrite.HOISTED, LATE),
        (with_news(), inline, None, None),
        (talk(), tools_last, Rewrite.TOOLS, "/tools"),
        # a time that moves on while the two are rendered
        (talk(), numbered("Today: 2{} Nov 2026\n"), Rewrite.CLOCK, ""),
        # the tools stand right behind, and only a little further on
        (talk(), growing("Left: {}.\n"), Rewrite.OTHER, ""),
        # what changed stands in a tool that is spelled anew, and not in the words of the request
        (talk(), numbered('{{"path": "{}"}}'), Rewrite.OTHER, ""),
    ],
    ids=["left out", "hoisted", "in place", "tools", "clock", "counter", "JSON"],
)
def test_what_a_template_does(bodies, template, rewrite, path):
    found, *_ = proved(bodies, template)
    assert (found.rewrite, found.where and found.where.path) == (rewrite, path)
    assert bool(found.lost) is (rewrite is not None)
    assert not found.fits


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


def test_a_time_that_stands_in_the_request_is_no_clock_of_the_template():
    def change(body, turn):
        body["messages"][0]["content"] += "\nWe met at 10:42:07."

    found, *_ = proved(plant(talk(), change), inline, has_clock=True)
    assert found.clock is None


def test_what_the_client_changed_fits():

    def change(body, turn):
        text = body["messages"][0]["content"]
        body["messages"][0]["content"] = insert(text, 500, f"{'abcdefgh'[turn]}bright morning")

    bodies = plant(talk(), change)
    found, *_ = proved(bodies, inline)
    assert found.fits
    one, two = (prompt_of(request(body)) for body in bodies)
    assert parted_at(one, two, None).path == "/messages/0/content"


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


def test_what_is_searched_grows_as_the_prompts_do():
    """Each text looked for in the whole of a prompt, it would be 64 times as much."""

    def searched(turns):
        bodies = long_talk(turns)
        texts = [Searched(thinking(body["messages"], [])) for body in bodies]
        was, now = (Rendered(text, array("q", map(hash, text.split()))) for text in texts)
        found = proof_of(was, now, compared(*bodies, was, now, has_clock=True))
        assert found.rewrite is Rewrite.OTHER
        assert found.fits
        return sum(getattr(text, "characters", 0) for text in texts)

    assert 0 < searched(160) < 16 * searched(20)
