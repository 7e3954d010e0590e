"""Every field is found where it was planted, and nowhere else."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.diff.kind import Kind
from cacheproxy.core.prompt.prompt import Part
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.rule import Rule
from tests.core.planting import anthropic, chat, insert, numbered, plant, prose, requests

TOKENS = {
    "uuid": Kind.UUID,
    "clock": Kind.CLOCK,
    "date": Kind.DATE,
    "counter": Kind.COUNTER,
    "nonce": Kind.NONCE,
}
at = st.integers(0, 999)
seed = st.integers(0, 10_000)
shapes = st.sampled_from([anthropic, chat])
bodies_of = pytest.mark.parametrize("bodies_of", [anthropic, chat])


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


@bodies_of
def test_a_conversation_that_only_grows_has_none(bodies_of):
    assert found(bodies_of(6)) == ()


@given(bodies_of=shapes, kind=st.sampled_from(sorted(TOKENS)), at=at, seed=seed)
@settings(max_examples=25)
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
@settings(max_examples=25)
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
@settings(max_examples=20)
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
    assert (field.kind, field.source, field.count) == (Kind.CLOCK, "user", 3)
    assert field.path.startswith("/messages/*/content")


@given(order=st.permutations(range(4)).filter(lambda order: order != [0, 1, 2, 3]))
@settings(max_examples=20)
def test_shuffled_tools(order):
    def change(body, turn):
        if turn == 2:
            body["tools"] = [body["tools"][i] for i in order]

    assert seen(plant(anthropic(), change)) == [(Kind.REORDERED, "/tools", 2)]


@given(
    number=st.integers(0, 3),
    order=st.permutations(["path", "text", "mode"]).filter(lambda keys: keys[0] != "path"),
)
@settings(max_examples=15)
def test_shuffled_keys_inside_a_schema(number, order):
    def change(body, turn):
        schema = body["tools"][number]["input_schema"]
        if turn % 2:
            schema["properties"] = {key: schema["properties"][key] for key in order}

    path = f"/tools/{number}/input_schema/properties"
    assert seen(plant(anthropic(), change)) == [(Kind.REORDERED, path, 3)]


def test_a_list_in_a_schema_may_be_shuffled_too():
    def change(body, turn):
        if turn % 2:
            body["tools"][1]["input_schema"]["required"].reverse()

    assert seen(plant(anthropic(), change)) == [
        (Kind.REORDERED, "/tools/1/input_schema/required", 3)
    ]


@given(number=st.integers(0, 4))
@settings(max_examples=10)
def test_a_tool_that_comes_in_between(number):
    def change(body, turn):
        if turn >= 2:
            body["tools"].insert(number, {"name": "later", "description": prose("later")})

    assert seen(plant(anthropic(), change)) == [(Kind.ADDED, f"/tools/{number}", 1)]


@given(number=st.integers(0, 3))
@settings(max_examples=10)
def test_a_nonce_in_a_tool_description(number):
    def change(body, turn):
        body["tools"][number]["description"] += f" Build {numbered('nonce', turn)}."

    path = f"/tools/{number}/description"
    assert seen(plant(anthropic(), change)) == [(Kind.NONCE, path, 3)]


REMINDER = "<reminder>\nKeep the tests green and the notes short.\n</reminder>"


@given(first=st.booleans())
@settings(max_examples=4)
def test_a_reminder_block_that_stays_in_the_last_user_message(first):
    def change(body, turn):
        blocks = body["messages"][-1]["content"]
        blocks.insert(0 if first else len(blocks), {"type": "text", "text": REMINDER})

    ((kind, path, count),) = seen(plant(anthropic(), change))
    assert (kind, count) == (Kind.MOVED, 3)
    assert path.startswith("/messages/*/content/")


@pytest.mark.parametrize("role", ["user", "system"])
@bodies_of
def test_a_reminder_message_that_stays_last(bodies_of, role):
    def change(body, turn):
        body["messages"].append({"role": role, "content": REMINDER})

    assert seen(plant(bodies_of(), change)) == [(Kind.MOVED, "/messages/*", 3)]


def test_a_reminder_glued_to_what_the_user_wrote():
    def change(body, turn):
        body["messages"][-1]["content"] += f"\n\n{REMINDER}"

    assert seen(plant(chat(), change)) == [(Kind.MOVED, "/messages/*/content", 3)]


def test_a_reminder_that_moves_is_one_field_though_its_clock_changes():
    def change(body, turn):
        text = REMINDER.replace("short", f"short at {numbered('clock', turn)}")
        body["messages"].append({"role": "user", "content": text})

    assert seen(plant(anthropic(), change)) == [(Kind.MOVED, "/messages/*", 3)]


@given(at=st.integers(0, 6))
@settings(max_examples=10)
def test_a_message_put_into_the_history(at):
    def change(body, turn):
        if turn == 3:
            body["messages"].insert(at, {"role": "user", "content": prose("put in", 24)})

    ((kind, path, count),) = seen(plant(anthropic(), change))
    assert (kind, path, count) == (Kind.ADDED, f"/messages/{at}", 1)


@given(number=st.sampled_from([0, 3]))
@settings(max_examples=4)
def test_a_content_that_is_a_string_now_and_then(number):
    def change(body, turn):
        message = body["messages"][number] if number < len(body["messages"]) else None
        if message and turn % 2:
            message["content"] = message["content"][0]["text"]

    result = seen(plant(anthropic(), change))
    assert [(kind, path) for kind, path, _ in result] == [
        (Kind.SPELLING, f"/messages/{number}/content")
    ]


def test_a_cache_breakpoint_is_no_switch():
    """Claude Code's own: the last message is a list with a breakpoint, later a string."""

    def change(body, turn):
        for message in body["messages"][:-1]:
            if message["role"] == "user" and message["content"][0]["type"] == "text":
                message["content"] = message["content"][0]["text"]
        body["messages"][-1]["content"][0]["cache_control"] = {"type": "ephemeral"}

    assert found(plant(anthropic(), change)) == ()


def test_a_breakpoint_that_moves_along_the_tools_is_no_field():
    def change(body, turn):
        body["tools"][turn]["cache_control"] = {"type": "ephemeral"}

    assert found(plant(anthropic(), change)) == ()


def test_a_compaction_is_no_field_but_what_stays_is_compared():
    bodies = plant(anthropic(6), lambda body, turn: None)
    bodies[4]["messages"] = [{"role": "user", "content": prose("summary", 80)}]
    bodies[5]["messages"] = [*bodies[4]["messages"], {"role": "assistant", "content": "yes"}]
    assert found(bodies) == ()
    for turn, body in enumerate(bodies):
        set_system(body, lambda text, turn=turn: f"id: {numbered('nonce', turn)}\n{text}")
    assert seen(bodies) == [(Kind.NONCE, "/system/1/text", 5)]


def test_a_turn_taken_back_is_no_field_of_the_model():
    bodies = anthropic()
    bodies[2]["messages"] = bodies[1]["messages"][:-2]
    assert all(field.source == "user" for field in found(bodies))


def test_parts_can_be_left_out():
    def change(body, turn):
        body["messages"][0]["content"][0]["text"] += f" n={turn}"

    bodies = plant(anthropic(), change)
    assert len(found(bodies)) == 1
    assert found(bodies, parts=(Part.TOOLS, Part.SYSTEM)) == ()


class TestCoverage:
    def bodies(self):
        def change(body, turn):
            set_system(
                body,
                lambda text: f"id: {numbered('uuid', turn)}\n{text}\nat: {numbered('clock', turn)}",
            )

        return plant(anthropic(), change)

    def test_the_rule_that_takes_it_away_is_named(self):
        rules = [
            Rule("other", "system", r"nothing like it", ""),
            Rule("ids", "system", r"^id: (?P<volatile>\S+)", "0"),
            Rule("ids-too", "system", r"^id: \S+", "id"),
        ]
        uuid, clock = found(self.bodies(), rules)
        assert (uuid.rules, uuid.covered) == (("ids", "ids-too"), 3)
        assert (clock.rules, clock.covered) == ((), 0)

    def test_a_rule_beside_the_field_does_not_count(self):
        """It edits the same text, but elsewhere."""
        rules = [Rule("words", "system", r"agent", "AGENT")]
        assert all(field.rules == () for field in found(self.bodies(), rules))

    def test_a_pin_counts(self):
        rules = [Rule("at", "system", r"(?m)^at: (?P<volatile>.+)$", pin=True)]
        uuid, clock = found(self.bodies(), rules)
        assert (uuid.rules, clock.rules) == ((), ("at",))

    def test_a_rule_that_fails_covers_nothing(self):
        class Raises:
            name, why, default, literals, needs_previous = "raises", "", True, (), False

            def edits(self, request, previous):
                raise ZeroDivisionError

        assert all(field.rules == () for field in found(self.bodies(), [Raises()]))


@pytest.mark.parametrize("depth", [100, 500, 700, 900, 2000])
def test_a_schema_nested_however_deeply(depth):
    def body(number):
        deep = "[" * depth + str(number) + "]" * depth
        return f'{{"tools": [{{"name": "a", "x": {deep}}}], "messages": [{{"role": "user"}}]}}'

    sent = [Request("POST", "/v1/messages", body=body(number).encode()) for number in range(2)]
    result = fields([(sent[0], sent[1])])
    assert all(field.path.startswith("/tools") for field in result)
    # How deep the scanner goes is the Python version's affair.
    assert len(result) == (0 if sent[0].json is None else 1)
    assert fields([(sent[0], sent[0])]) == ()


def test_halves_of_characters_and_other_strange_bodies():
    """A tool output cut in the middle of a character, messages that are none."""
    halves = [
        {"system": f"\ud83d id: {numbered('nonce', turn)} \ude00", "messages": [None, 3, {"a": 1}]}
        for turn in range(3)
    ]
    assert seen(halves) == [(Kind.NONCE, "/system", 2)]
    strange = [{"messages": said, "tools": said, "system": said} for said in (5, [[]], [1, None])]
    assert all(isinstance(field.path, str) for field in found(strange))


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
