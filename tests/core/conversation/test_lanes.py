"""Which requests extend one another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.conversation.lanes import Before, Place, share_of
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.prompt import prompt_of
from tests.core.planting import anthropic, chat, insert, numbered, plant, prose, request, tool

ONE = Session("agent", "one")


def place(store, body):
    """Where a request belongs that is sent and answered."""
    asked = request(body)
    return store.end(ONE, store.begin(store.find(ONE, asked), asked), None)


def title(text="title"):
    return {
        "model": "m",
        "system": prose("title system"),
        "messages": [{"role": "user", "content": prose(text)}],
    }


def subagent(turns=2):
    bodies = anthropic(turns)
    for body in bodies:
        body["tools"] = [tool("search")]
        body["system"] = prose("subagent system", 80)
        body["messages"][0]["content"] = prose("task")
    return bodies


def test_turns_are_counted():
    store = Store()
    places = [place(store, body) for body in chat(4)]
    assert places == [Place(0, turn, is_side=False) for turn in (1, 2, 3, 4)]


def test_a_title_asked_for_first_is_beside_once_a_request_with_tools_comes():
    store = Store()
    first, *rest = anthropic(3)
    assert place(store, title()) == Place(0, 1, is_side=False)
    assert place(store, first) == Place(1, 1, is_side=False)
    assert store.conversation(ONE).main == 1
    assert [place(store, body).turn for body in rest] == [2, 3]
    assert place(store, title("another")).is_side


def test_a_subagent_between_two_turns_has_a_lane_of_its_own():
    store = Store()
    first, second, third = anthropic(3)
    one, other = subagent()
    order = [first, one, second, other, third]
    assert [place(store, body) for body in order] == [
        Place(0, 1, is_side=False),
        Place(1, 1, is_side=True),
        Place(0, 2, is_side=False),
        Place(1, 2, is_side=True),
        Place(0, 3, is_side=False),
    ]


def test_a_request_that_holds_the_conversation_but_other_tools_is_beside():
    """Such as one that extracts memories from it."""
    store = Store()
    first, second, third = anthropic(3)
    place(store, first)
    place(store, second)
    extract = {**second, "tools": [tool("remember")], "system": prose("extract")}
    assert place(store, extract) == Place(1, 1, is_side=True)
    assert place(store, third) == Place(0, 3, is_side=False)


def test_tools_that_come_later_leave_the_lane():
    store = Store()
    first, second = anthropic(2)
    place(store, first)
    second["tools"] += [tool("later"), tool("too")]
    assert place(store, second) == Place(0, 2, is_side=False)


def test_a_compaction_stays_in_the_lane_and_says_so():
    store = Store()
    *turns, last = anthropic(4)
    for body in turns:
        place(store, body)
    last["messages"] = [{"role": "user", "content": prose("summary")}]
    last["system"][0]["text"] += f" cch={numbered('nonce', 1)}"
    assert place(store, last) == Place(0, 4, is_side=False, replaced=True)


def test_a_compaction_may_repeat_what_the_client_always_says():
    """Reminders come again behind the summary, as Claude Code has it."""
    store = Store()
    *turns, last = anthropic(5)
    reminder = {"type": "text", "text": prose("reminder")}
    for body in turns:
        body["messages"][0]["content"].insert(0, reminder)
        place(store, body)
    asked = {"role": "user", "content": [reminder, {"type": "text", "text": "go on"}]}
    last["messages"] = [{"role": "user", "content": prose("summary")}, asked]
    assert place(store, last).replaced
    last["messages"] += [{"role": "assistant", "content": "yes"}, asked]
    assert place(store, last) == Place(0, 6, is_side=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda messages: messages[:1] + messages[-1:],
        lambda messages: [*messages[:1], {"role": "user", "content": prose("other")}],
        lambda messages: [{**one, "content": prose(f"new {i}")} for i, one in enumerate(messages)],
        lambda messages: [{"role": "user", "content": prose("first")}, *messages[1:]],
    ],
    ids=["its middle is gone", "its end is gone", "as long as before", "its first is another"],
)
def test_a_history_that_changed_is_no_compaction(change):
    """One keeps its beginning or its length."""
    store = Store()
    *turns, last = anthropic(5)
    for body in turns:
        place(store, body)
    last["messages"] = change(last["messages"])
    found = place(store, last)
    assert (found.lane, found.replaced) == (0, False)


@given(at=st.integers(0, 999), kind=st.sampled_from(["uuid", "clock", "nonce", "counter"]))
@settings(max_examples=20)
def test_fields_that_change_everywhere_do_not_make_a_new_lane(at, kind):
    def change(body, turn):
        text = body["messages"][0]["content"]
        body["messages"][0]["content"] = insert(text, at, numbered(kind, turn))
        for message in body["messages"][1:]:
            if message["role"] == "user":
                message["content"] = f"[{numbered(kind, turn)}] {message['content']}"

    store = Store()
    places = [place(store, body) for body in plant(chat(4), change)]
    assert [(found.lane, found.turn) for found in places] == [(0, 1), (0, 2), (0, 3), (0, 4)]


def test_a_turn_taken_back_goes_on_in_the_lane():
    store = Store()
    bodies = chat(4)
    for body in bodies:
        place(store, body)
    assert place(store, bodies[2]) == Place(0, 5, is_side=False)


def test_how_much_of_a_conversation_a_prompt_contains():
    store = Store()
    first, second, third = chat(3)
    place(store, second)
    known = store.conversation(ONE)
    assert share_of(known.lanes, prompt_of(request(third))) == 1
    assert 0 < share_of(known.lanes, prompt_of(request(first))) < 1


def test_what_nobody_has_answered_is_no_branch_though_all_before_it_was_read_anew():
    store, body = Store(), anthropic(3)[-1]
    for asking in ("this", "that", "what"):
        body["messages"][-1]["content"] = prose(asking, 40)
        asked = request(body)
        begun = store.begin(store.find(ONE, asked), asked)
        lane, sent = store.conversation(ONE).lane(begun.lane), prompt_of(asked)
        store.end(ONE, begun, Before(sent, sent), before=lane.before)
    assert (lane.turns, lane.branches) == (3, ())
