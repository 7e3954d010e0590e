"""With earlier reasoning kept, a prompt only grows; what nobody asked for is left as it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.adapt import thinking
from cacheproxy.core.adapt.thinking import (
    AUTO,
    NO,
    way_of,
)
from cacheproxy.core.conversation.thoughts import Thought, Thoughts, place_of
from cacheproxy.core.dialects.answer import said_in
from cacheproxy.core.kinds.profile import MemoryKind
from cacheproxy.testing import request
from tests import transcript

from .talk import PATHS, TURNS, WORD, Talk, answer, keep, profile, result, talk, user, without

CHAT, MESSAGES = PATHS["chat"], PATHS["messages"]
KWARGS = "chat_template_kwargs"


@pytest.mark.parametrize("api", ["chat", "messages"])
@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("empty", [True, False])
def test_the_prompt_only_grows(api, sends, empty):
    """Whatever the client does with reasoning, and whether the template writes empty blocks."""
    assert talk(api=api, sends=sends, empty=empty).only_grew
    assert not talk(api=api, sends=sends, empty=empty, setting=NO).only_grew


STEPS = st.lists(
    st.tuples(
        st.sampled_from([user("go on"), user("say"), result("much"), result("")]),
        st.builds(
            answer,
            st.sampled_from(["Done.", "Yes.\n", "ja ä\ud83d"]),
            st.sampled_from(["", "hm", 'so "x"\n', "\u2028" * 3]),
            st.sampled_from([(), [("look", {"a": 1.0})], [("look", {"a": {"b": []}})]]),
        ),
    ),
    max_size=9,
).map(lambda steps: [(user("begin"), answer("Well.", "w")), *steps])


@given(STEPS, st.sampled_from(["chat", "messages"]), st.booleans(), st.booleans())
def test_in_any_conversation_the_prompt_only_grows_and_nothing_else_changes(
    steps, api, sends, empty
):
    """What users said, tools returned and the model answered stays; so do all other members."""
    found = talk(steps, api=api, sends=sends, empty=empty)
    assert found.only_grew
    again = keep(found.sent, (WORD,), found.thoughts)
    assert again.request is found.sent
    assert again.report is None
    found.messages.pop()  # the last answer was not sent yet
    body, sent = found.request().json, found.sent.json
    for asked, edited in zip(body["messages"], sent["messages"], strict=True):
        assert sends or unthought(edited) == asked
        assert unthought(edited) == unthought(asked)
    assert sent | {"messages": [], KWARGS: None} == body | {"messages": [], KWARGS: None}


def unthought(message):
    """A message without its reasoning."""
    bare = without(message)
    content = bare["content"]
    if isinstance(content, list):
        content = [block for block in content if block["type"] != "thinking"]
    return bare | {"content": content}


def test_by_itself_it_begins_where_the_client_sends_reasoning_back():
    """With the first of it, so that nothing is ever read again."""
    found = talk(sends=True, setting=AUTO)
    assert found.only_grew
    assert [report is None for report in found.reports] == [True, *[False] * 7]
    (edit,) = found.reports[-1].edits
    assert (edit.path, edit.new) == (f"/{KWARGS}", {WORD[0]: WORD[1]})


@pytest.mark.parametrize("kind", [MemoryKind.REWINDABLE, MemoryKind.BLOCKS, MemoryKind.UNKNOWN])
def test_by_itself_it_does_nothing_where_the_memory_can_rewind(kind):
    """Or where that is not known; nor for a client that drops reasoning."""
    found = talk(sends=True, setting=AUTO, server=profile(kind=kind))
    assert found.reports == talk(setting=AUTO).reports == [None] * len(TURNS)


def test_what_was_begun_goes_on_though_the_client_drops_reasoning_later():
    """As clients do that send it within a turn only; so nothing is read again."""
    found = Talk(sends=True, setting=AUTO)
    for message, said in TURNS[:3]:
        found.step(message, said)
    for message in found.messages:
        message.pop("reasoning_content", None)
    for message, said in TURNS[3:]:
        found.step(message, said)
    assert found.only_grew


@pytest.mark.parametrize(("last", "begins"), [(user("more"), True), (result("much"), False)])
def test_in_mid_conversation_it_begins_at_a_user_message(last, begins):
    """There the template drops the turn before in any case."""
    said = [*TURNS[3], *TURNS[0], result("x"), answer("", "y", [("look", {})]), last]
    for path, api in ((CHAT, "chat"), (MESSAGES, "messages")):
        found = Talk(api=api)
        found.messages += said
        way = way_of(AUTO, profile(), found.request(), Thoughts())
        assert (way is not None) is begins, path


def given_back(message, api="chat"):
    """What becomes of an assistant's ``message`` whose reasoning is remembered as "so"."""
    found = Talk(api=api)
    found.step(user("one"), answer("Done.", "so"))
    path, body = PATHS[api], found.request().json
    said = [*body["messages"][:-1], message, user("two")]
    asked = request({**body, "messages": said}, path)
    kept = keep(asked, (), found.thoughts)
    assert kept.report is None or kept.report.error is None
    return kept.request.json["messages"][-2]


def test_what_is_kept_and_put_back():
    transcript.holds("keeping.txt", globals())


def test_another_message_before_an_answer_makes_it_another_answer():
    """As where the user went back and asked another thing."""
    found = Talk()
    found.step(user("one"), answer("Done.", "so"))
    asked = request({"messages": [user("two"), answer("Done."), user("x")]}, CHAT)
    assert keep(asked, (), found.thoughts).request is asked


def test_what_has_gone_from_the_history_is_not_looked_for():
    """A compaction, and answers that are deleted."""
    found = talk()
    found.messages[1:5] = [user("summary")]
    found.step(user("x"), answer("y", "z"))
    assert found.reports[-1].error is None
    found.messages[1:] = []
    found.step(user("one"), answer("y", "z"))
    assert found.reports[-1].error is None


@pytest.mark.parametrize(
    "messages",
    [
        *(None, 7, [], [7], [None, answer("x"), {}], [answer("x")]),
        [{"role": "assistant"}, {"role": "assistant", "content": 7}],
        [user(7), {"role": "assistant", "tool_calls": 7}],
    ],
)
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_no_body_is_too_strange(messages, path):
    """It goes on as it came, but for the word."""
    asked = request({"messages": messages}, path)
    assert way_of(AUTO, profile(), asked, Thoughts()) is None
    kept = keep(asked, (WORD,), Thoughts())
    assert kept.report.error is None
    assert kept.request.json == {"messages": messages, KWARGS: dict([WORD])}


def test_what_goes_wrong_is_told_and_nothing_is_changed(monkeypatch):
    """The request goes on as it came (law 4)."""
    monkeypatch.setattr(thinking, "splice", lambda *_: 1 / 0)
    asked = request({"messages": [user("x")]}, CHAT)
    kept = keep(asked, (WORD,), Thoughts())
    assert kept.request is asked
    assert kept.report.error == "ZeroDivisionError"


def test_reasoning_of_200_kb_a_turn():
    """Text that has to be escaped; nothing else changes."""
    found = Talk()
    for number in range(4):
        found.step(user(f"{number}"), answer(f"a{number}", f'"\n{number}' * 50_000))
    assert found.only_grew
    assert len(found.sent.body) > 3 * 200_000
    said = json.loads(found.sent.body)["messages"]
    assert [m.get("reasoning_content") for m in said if m["role"] == "assistant"] == [
        f'"\n{number}' * 50_000 for number in range(3)
    ]


def test_a_thought_of_another_name_stays_under_it():
    thoughts = Thoughts()
    asked = request({"messages": [user("x")]}, CHAT)
    place = place_of(keep(asked, None, thoughts).asked, said_in([answer("y")]))
    thoughts.keep(place, Thought("reasoning", '"so"'))
    again = request({"messages": [user("x"), answer("y"), user("z")]}, CHAT)
    assert keep(again, (), thoughts).request.json["messages"][1]["reasoning"] == "so"
