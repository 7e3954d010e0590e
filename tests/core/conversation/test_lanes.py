"""Which requests extend one another."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.conversation.lanes import Before, Place
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.prompt import prompt_of
from tests import transcript
from tests.core.planting import anthropic, chat, insert, numbered, plant, prose, request, tool

ONE = Session("agent", "one")


def place(store, body):
    """Where a request belongs that is sent and answered."""
    asked = request(body)
    return store.end(ONE, store.begin(store.find(ONE, asked), asked), None)


def placed(bodies):
    """Lane and turn of each, ``s`` behind a side request, ``r`` behind a compaction."""
    store = Store()
    places = [place(store, body) for body in bodies]
    return [f"{one.lane}:{one.turn}{'s' * one.is_side}{'r' * one.replaced}" for one in places]


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


def test_a_title_asked_for_first_is_beside_once_a_request_with_tools_comes():
    store = Store()
    first, *rest = anthropic(3)
    assert place(store, title()) == Place(0, 1, is_side=False)
    assert place(store, first) == Place(1, 1, is_side=False)
    assert store.conversation(ONE).main == 1
    assert [place(store, body).turn for body in rest] == [2, 3]
    assert place(store, title("another")).is_side


def test_a_compaction_may_repeat_what_the_client_always_says():
    """Reminders come again behind the summary, as Claude Code has it."""
    *turns, last = anthropic(5)
    reminder = {"type": "text", "text": prose("reminder")}
    for body in turns:
        body["messages"][0]["content"].insert(0, reminder)
    asked = {"role": "user", "content": [reminder, {"type": "text", "text": "go on"}]}
    summed = [{"role": "user", "content": prose("summary")}, asked]
    after = [*summed, {"role": "assistant", "content": "yes"}, asked]
    found = placed([*turns, last | {"messages": summed}, last | {"messages": after}])
    assert found[-2:] == ["0:5r", "0:6"]


@given(at=st.integers(0, 999), kind=st.sampled_from(["uuid", "clock", "nonce", "counter"]))
@settings(max_examples=min(20, settings().max_examples))
def test_fields_that_change_everywhere_do_not_make_a_new_lane(at, kind):
    def change(body, turn):
        text = body["messages"][0]["content"]
        body["messages"][0]["content"] = insert(text, at, numbered(kind, turn))
        for message in body["messages"][1:]:
            if message["role"] == "user":
                message["content"] = f"[{numbered(kind, turn)}] {message['content']}"

    assert placed(plant(chat(4), change)) == ["0:1", "0:2", "0:3", "0:4"]


def test_what_nobody_has_answered_is_no_branch_though_all_before_it_was_read_anew():
    store, body = Store(), anthropic(3)[-1]
    for asking in ("this", "that", "what"):
        body["messages"][-1]["content"] = prose(asking, 40)
        asked = request(body)
        begun = store.begin(store.find(ONE, asked), asked)
        lane, sent = store.conversation(ONE).lane(begun.lane), prompt_of(asked)
        store.end(ONE, begun, Before(sent, sent), before=lane.before)
    assert (lane.turns, lane.branches) == (3, ())


def test_all_that_is_said():
    transcript.holds("lanes.txt", globals())
