"""Every field is found where it was planted, and nowhere else."""

from itertools import pairwise
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.diff.kind import ChangeKind
from tests import transcript
from tests.core.planting import anthropic, chat, insert, numbered, plant, prose, requests

TOKENS = {
    "uuid": ChangeKind.UUID,
    "clock": ChangeKind.CLOCK,
    "date": ChangeKind.DATE,
    "counter": ChangeKind.COUNTER,
    "nonce": ChangeKind.NONCE,
}
at = st.integers(0, 999)
seed = st.integers(0, 10_000)
shapes = st.sampled_from([anthropic, chat])


def found(bodies, rules=(), **options):
    return fields(list(pairwise(requests(bodies))), rules, **options)


def seen(bodies):
    return [(field.kind, field.path, field.count) for field in found(bodies)]


def set_system(body, change):
    if "system" in body:
        body["system"][1]["text"] = change(body["system"][1]["text"])
    else:
        body["messages"][0]["content"] = change(body["messages"][0]["content"])


def system_path(body):
    return "/system/1/text" if "system" in body else "/messages/0/content"


@given(bodies_of=shapes, kind=st.sampled_from(sorted(TOKENS)), at=at, seed=seed)
@settings(max_examples=10)
def test_a_token_anywhere_in_the_system_text(bodies_of, kind, at, seed):
    def change(body, turn):
        set_system(body, lambda text: insert(text, at, f"id: {numbered(kind, turn, seed)}."))

    bodies = plant(bodies_of(), change)
    (field,) = found(bodies)
    assert field.kind is TOKENS[kind]
    assert (field.path, field.part, field.source) == (
        system_path(bodies[0]),
        Part.SYSTEM,
        "client",
    )
    assert field.count == len(bodies) - 1
    assert field.was == numbered(kind, 0, seed)
    assert field.now == numbered(kind, 1, seed)
    assert field.label == "id: "


@given(places=st.lists(st.tuples(st.sampled_from(sorted(TOKENS)), at), min_size=2, max_size=4))
@settings(max_examples=10)
def test_several_tokens_are_all_found(places):
    """Masking goes on behind the first, whatever line the others are on."""
    places = [(kind, at, f"{letter}=") for (kind, at), letter in zip(places, "wxyz", strict=False)]

    def change(body, turn):
        def write(text):
            for kind, at, label in places:
                text = insert(text, at, f"{label}{numbered(kind, turn)}.")
            return text

        set_system(body, write)

    result = found(plant(anthropic(), change))
    assert {(field.kind, field.label) for field in result} == {
        (TOKENS[kind], label) for kind, _, label in places
    }


@given(bodies_of=shapes, seed=seed)
@settings(max_examples=10)
def test_a_clock_in_each_user_message_rewritten_each_turn(bodies_of, seed):
    def change(body, turn):
        for message in body["messages"]:
            content = message["content"]
            stamp = f"[{numbered('clock', turn, seed)}] "
            if message["role"] != "user":
                continue
            if isinstance(content, str):
                message["content"] = stamp + content
            elif content[0]["type"] == "text":
                content[0]["text"] = stamp + content[0]["text"]

    (field,) = found(plant(bodies_of(), change))
    assert (field.kind, field.source, field.count) == (ChangeKind.CLOCK, "user", 3)
    assert field.path.startswith("/messages/*/content")


REMINDER = "<reminder>\nKeep the tests green and the notes short.\n</reminder>"
LATER = {"name": "later", "description": prose("later")}
REMINDING = {"type": "text", "text": REMINDER}
PUT_IN = {"role": "user", "content": prose("put in", 24)}
tools = itemgetter("tools")


def required(body):
    return body["tools"][1]["input_schema"]["required"]


def blocks(body):
    return body["messages"][-1]["content"]


def reverse(values, turns):
    """Turn the list that ``values(body)`` is round, in these turns."""
    return lambda body, turn: values(body).reverse() if turn in turns else None


def put(what, at, values, turns=range(4)):
    return lambda body, turn: values(body).insert(at, what) if turn in turns else None


def shuffle_keys(body, turn):
    schema = body["tools"][1]["input_schema"]
    if turn % 2:
        schema["properties"] = dict(reversed(schema["properties"].items()))


def build(body, turn):
    body["tools"][1]["description"] += f" Build {numbered('nonce', turn)}."


def rewrite_a_call(body, turn):
    for message in body["messages"][1:2]:
        message["content"][1]["input"]["path"] = f"run {numbered('nonce', turn)}"


def remind(role, text=REMINDER):
    def change(body, turn):
        said = text.replace("CLOCK", numbered("clock", turn))
        body["messages"].append({"role": role, "content": said})

    return change


def remind_in_the_text(body, turn):
    blocks(body)[-1]["text"] += f"\n\n{REMINDER}"


def spell_as_string(number):
    def change(body, turn):
        for message in body["messages"][number : number + 1] if turn % 2 else ():
            message["content"] = message["content"][0]["text"]

    return change


@pytest.mark.parametrize(
    ("change", "kind", "path", "count"),
    [
        (reverse(tools, {2}), ChangeKind.REORDERED, "/tools", 2),
        (reverse(required, {1, 3}), ChangeKind.REORDERED, "/tools/1/input_schema/required", 3),
        (shuffle_keys, ChangeKind.REORDERED, "/tools/1/input_schema/properties", 3),
        (put(LATER, 0, tools, {2, 3}), ChangeKind.ADDED, "/tools/0", 1),
        (put(LATER, 4, tools, {2, 3}), ChangeKind.ADDED, "/tools/4", 1),
        (build, ChangeKind.NONCE, "/tools/1/description", 3),
        (rewrite_a_call, ChangeKind.NONCE, "/messages/1/content/1", 2),
        (put(REMINDING, 0, blocks), ChangeKind.MOVED, "/messages/*/content/0/text", 3),
        (put(REMINDING, 9, blocks), ChangeKind.MOVED, "/messages/*/content/1/text", 3),
        (remind("user"), ChangeKind.MOVED, "/messages/*", 3),
        (remind("system"), ChangeKind.MOVED, "/messages/*", 3),
        (remind("user", f"{REMINDER} at CLOCK"), ChangeKind.MOVED, "/messages/*", 3),
        (remind_in_the_text, ChangeKind.MOVED, "/messages/*/content/0/text", 3),
        *(
            (put(PUT_IN, at, itemgetter("messages"), {3}), ChangeKind.ADDED, f"/messages/{at}", 1)
            for at in range(7)
        ),
        (spell_as_string(0), ChangeKind.SPELLING, "/messages/0/content", 3),
        (spell_as_string(3), ChangeKind.SPELLING, "/messages/3/content", 2),
    ],
)
def test_what_changes_as_a_whole_is_one_field(change, kind, path, count):
    """Tools and keys that are shuffled, come or go; reminders that move; the form of a content."""
    assert seen(plant(anthropic(), change)) == [(kind, path, count)]


def breakpoint_on_the_last(body, turn):
    """Claude Code's own: the last message is a list with a breakpoint, later a string."""
    for message in body["messages"][:-1]:
        if message["role"] == "user" and message["content"][0]["type"] == "text":
            message["content"] = message["content"][0]["text"]
    body["messages"][-1]["content"][0]["cache_control"] = {"type": "ephemeral"}


def breakpoint_along_the_tools(body, turn):
    body["tools"][turn]["cache_control"] = {"type": "ephemeral"}


def compact(body, turn):
    """What is before and behind it is compared."""
    if turn >= 2:
        body["messages"] = [{"role": "user", "content": prose("summary", 80)}]
        body["messages"] += [{"role": "assistant", "content": "yes"}] * (turn - 2)


@pytest.mark.parametrize(
    "change", [breakpoint_on_the_last, breakpoint_along_the_tools, compact, lambda *_: None]
)
def test_breakpoints_compactions_and_growth_are_no_fields(change):
    bodies = plant(anthropic(), change)
    assert found(bodies) == ()
    for turn, body in enumerate(bodies):
        set_system(body, lambda text, turn=turn: f"id: {numbered('nonce', turn)}\n{text}")
    assert seen(bodies) == [(ChangeKind.NONCE, "/system/1/text", 3)]


class Raises:
    name, why, default, literals, needs_previous = "raises", "", True, (), False

    def edits(self, request, previous):
        raise ZeroDivisionError


messages = st.lists(
    st.one_of(
        st.none(),
        st.builds(
            lambda role, content: {"role": role, "content": content},
            st.sampled_from(["user", "assistant", "system", "tool"]),
            st.one_of(
                st.text("ab 1\n", max_size=12),
                st.lists(
                    st.builds(
                        lambda text: {"type": "text", "text": text}, st.text("ab 1", max_size=8)
                    ),
                    max_size=3,
                ),
            ),
        ),
    ),
    max_size=6,
)


@given(one=messages, more=messages)
def test_what_is_only_appended_is_never_a_field(one, more):
    assert found([{"messages": one}, {"messages": one + more}]) == ()


@given(one=messages, other=messages)
def test_nothing_raises(one, other):
    """And prompts that part have a field, unless the history was replaced or taken back."""
    for field in found([{"messages": one}, {"messages": other}]):
        assert field.count == 1


def test_all_that_is_said():
    transcript.holds("volatile.txt", globals())
