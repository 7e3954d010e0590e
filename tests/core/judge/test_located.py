"""Where a turn leaves the one before it."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.verdict import TokenCount
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.judge import describe_change, excerpt, located, parted_at
from cacheproxy.core.prompt.prompt import prompt_of
from tests.core.diagnose.test_volatile import set_system
from tests.core.planting import anthropic, chat, numbered, plant, request


def prompts(change, bodies=None):
    planted = plant(bodies or anthropic(2), change)
    return [prompt_of(request(body)) for body in planted]


def with_text(text):
    """A change of the system text, by ``text``, another in each turn."""
    return lambda body, turn: set_system(body, lambda system: f"{text(turn)}\n{system}")


def respell(tools):
    """Another order of the members, the same tool."""
    tools[0] = dict(reversed(tools[0].items()))


def rename(tools):
    """Another tool."""
    tools[0]["name"] = "zz"


FIELDS = (ChangeKind.NONCE, ChangeKind.DATE, ChangeKind.CLOCK, ChangeKind.UUID)
SAME = prompts(lambda body, turn: None)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (with_text(lambda turn: numbered("nonce", turn)), ChangeKind.NONCE),
        (with_text(lambda turn: numbered("date", turn)), ChangeKind.DATE),
        (with_text(lambda turn: numbered("clock", turn)), ChangeKind.CLOCK),
        (with_text(lambda turn: numbered("uuid", turn)), ChangeKind.UUID),
        (with_text(lambda turn: ("one", "two")[turn]), ChangeKind.TEXT),
        (lambda body, turn: turn and body["tools"].pop(), ChangeKind.REMOVED),
        (lambda body, turn: turn or body["tools"].pop(), ChangeKind.ADDED),
        (lambda body, turn: turn and body["tools"].reverse(), ChangeKind.REORDERED),
        (lambda body, turn: turn and respell(body["tools"]), ChangeKind.REORDERED),
        (lambda body, turn: turn and rename(body["tools"]), ChangeKind.TEXT),
        (lambda body, turn: turn and body["messages"][0]["content"].clear(), ChangeKind.MOVED),
        (lambda body, turn: turn and body["messages"].clear(), ChangeKind.REMOVED),
        (lambda body, turn: None, ChangeKind.ADDED),
    ],
)
def test_a_change_is_described_by_its_shape(change, kind):
    one, two = prompts(change)
    found, token = describe_change(parting(one, two), one, two)
    assert found is kind
    assert (token is not None) is (kind in FIELDS)


def test_a_place_is_given_in_bytes_and_in_tokens():
    one, two = prompts(with_text(lambda turn: f"é🜁\ud83d: {numbered('nonce', turn)}"), chat(2))
    left = parting(one, two)
    found = located(left, one, two, 1000)
    assert (found.path, found.kind) == ("/messages/0/content", ChangeKind.NONCE)
    assert found.byte == len("é🜁".encode()) + 3 + len(": ")
    assert found.position == TokenCount(round(left.shared * 1000 / two.chars), "estimated")
    assert located(left, one, two, None).position == TokenCount(round(left.shared / 4), "estimated")
    assert numbered("nonce", 0) in found.was
    assert numbered("nonce", 1) in found.now
    one, two = prompts(lambda body, turn: turn and body["messages"].clear())
    gone = located(parting(one, two), one, two, 1000)
    assert (gone.byte, gone.now, bool(gone.was)) == (0, "", True)
    assert gone.path.startswith("/messages/0")


QUESTION = "What of this is worth remembering? Answer in two lines."
ANSWER = {"role": "assistant", "content": "Done."}


def asked(*texts):
    """A chat in which the user said ``texts``, and was answered all but the last."""
    said = [{"role": "user", "content": text} for text in texts]
    return {"messages": [each for one in said for each in (one, ANSWER)][:-1]}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        # A question that is asked anew at the end of each request, and not kept.
        (("one", QUESTION), ("one", "and two", QUESTION), ChangeKind.MOVED),
        (("one", QUESTION), ("one", "and two", f"{QUESTION} Again."), ChangeKind.MOVED),
        # A reminder behind the user's newest text alone.
        ((f"one {QUESTION}",), ("one", f"two {QUESTION}"), ChangeKind.MOVED),
        # The last message itself was changed, or taken back.
        (("one", QUESTION), ("one", "and two"), ChangeKind.TEXT),
        (("one", QUESTION), ("one", "and two", "and three"), ChangeKind.TEXT),
        (("one", f"At 10:00: {QUESTION}"), ("one", f"At 10:05: {QUESTION}"), ChangeKind.CLOCK),
        (
            ("one", f"At 10:00: {QUESTION}"),
            ("one", f"At 10:05: {QUESTION}", f"At 10:05: {QUESTION}"),
            ChangeKind.CLOCK,
        ),
        # Not the last one.
        (("one", QUESTION, "two"), ("one", "two", QUESTION), ChangeKind.TEXT),
    ],
)
def test_a_last_message_that_stays_last_has_moved(before, after, kind):
    one, two = (prompt_of(request(asked(*texts))) for texts in (before, after))
    found, _ = describe_change(parting(one, two), one, two)
    assert found is kind


def test_where_prompts_part_is_said_though_it_is_no_break():
    last = anthropic(2)[1]
    short = {**last, "messages": [*last["messages"][:-1], {"role": "user"}]}
    one, two = (prompt_of(request(body)) for body in (last, short))
    assert parted_at(one, two, None).path.startswith("/messages/")
    assert parted_at(*SAME, None) is None


@pytest.mark.parametrize("at", [0, 5, 500, 1000])
def test_an_excerpt_is_short_and_holds_the_place(at):
    text = "".join(chr(0x100 + number) for number in range(1000))
    found = excerpt(text, at)
    assert len(found) <= 180
    assert text[at : at + 1] in found
    assert found in text
    assert excerpt("", at) == ""
