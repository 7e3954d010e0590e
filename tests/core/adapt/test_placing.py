"""Late system messages become the user's; nothing else changes."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.adapt.late import place
from cacheproxy.core.adapt.placing import short_id
from cacheproxy.core.kinds.placement import Late, Placement, alike
from cacheproxy.testing import request
from tests import transcript
from tests.core.late import (
    ITEMS,
    MODES,
    NEWS,
    PATHS,
    PLACEMENTS,
    TREATMENTS,
    assistant,
    call,
    placed,
    sent,
    system,
    text,
    user,
)

# In place.


def test_text_that_is_wrapped_already_stays_however_it_is_spelled():
    """In one block or in several; Go writes the brackets as escapes."""
    blocks = [text("<system-reminder>\na"), text("b\n</system-reminder> \n")]
    assert sent(user("hi"), system(blocks)) == [user("hi"), user(blocks)]
    spelled = json.dumps(NEWS).replace("<", "\\u003c").replace(">", "\\u003e")
    for content in (spelled, f'[{{"type":"text","text":{spelled}}}]'):
        late = f'{{"role":"system","content":{content}}}'
        body = f'{{"messages":[{{"role":"user","content":"a"}},{late}]}}'
        after, count = placed(request(body))
        assert (after.body.decode(), count) == (body.replace('system"', 'user"'), 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("empty", ["", " \n", [], [text("")], [text(" "), text("\n")]])
def test_one_that_says_nothing_goes(mode, empty):
    """``claude --bare`` sends such with an effort setting."""
    effort = system(empty, output_config={"effort": "medium"})
    assert sent(user("hi"), effort, call("1"), by=mode, count=1) == [user("hi"), call("1")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("message", [system(None), {"role": "system"}, system(7), system({})])
def test_one_without_content_stays_as_it_came(mode, message):
    """What is not understood is not touched; another beside it is."""
    assert sent(user("hi"), message, assistant("ho"), by=mode, count=0)[1] == message
    assert sent(user("hi"), message, assistant("ho"), system("news"), by=mode, count=1) == [
        user("hi"),
        message,
        assistant("ho"),
        user(NEWS),
    ]


# Whatever comes.


def words_of(messages):
    """All texts that anyone says in them."""
    for message in messages:
        if isinstance(message, dict):
            content = message.get("content", message.get("output"))
            blocks = [text(content)] if isinstance(content, str) else content
            for block in blocks if isinstance(blocks, list) else ():
                if isinstance(block, dict) and isinstance(block.get("text"), str):
                    yield block["text"]


def assistants(messages):
    return [m for m in messages if isinstance(m, dict) and m.get("role") == "assistant"]


@given(st.lists(ITEMS, max_size=8), PLACEMENTS, st.sampled_from(sorted(PATHS)))
def test_any_shape_is_survived_and_nothing_anyone_said_is_lost(messages, placement, api):
    """No error and a fixed point; every text stands somewhere, in any mode and API."""
    found = sent(*messages, by=placement, api=api)
    spoken = json.dumps(found)
    for words in words_of(messages):
        assert not words.strip() or json.dumps(words)[1:-1] in spoken
    assert assistants(found) == assistants(messages)


@given(st.lists(ITEMS, max_size=6), PLACEMENTS)
def test_what_no_edit_names_stays_byte_for_byte(messages, placement):
    """Of other messages, and of everything around them, in an odd spelling."""
    spelled = [json.dumps(each, indent=1) for each in messages]
    body = (
        '{"z":1.50, "z" : -0.0,\n "system":"h\\u0065ad","messages":['
        + " ,".join(spelled)
        + ' ],"\\u0061":null}'
    )
    asked = request(body)
    after, report = place(asked, placement)
    root, _, tail = body.partition('"messages":[')
    assert after.body.decode().startswith(root)
    assert after.body.decode().endswith(tail[tail.rindex("]") :])
    named = {int(e.path.split("/")[2]) for e in report.edits} if report else set()
    position = 0
    for number, one in enumerate(spelled):
        if number not in named:
            position = after.body.decode().index(one, position) + len(one)


@given(st.lists(ITEMS, max_size=8), st.integers(0, 8), TREATMENTS, TREATMENTS)
def test_in_place_a_beginning_of_the_messages_gives_a_beginning_of_the_result(
    messages, length, treatment, other
):
    """Whatever they are: each is looked at with those before it alone."""
    placement = Placement(treatment, other)
    whole = sent(*messages, by=placement)
    assert whole[: len(sent(*messages[:length], by=placement))] == sent(
        *messages[:length], by=placement
    )


ID = "call_d77ad732ce70448c8742bf7f"
SHORT = replace(alike(Late.INLINE, "test"), short_ids=True)


def test_a_call_and_its_result_have_the_same_in_every_api_and_a_second_pass_changes_nothing():
    bodies = {
        "/v1/chat/completions": {
            "messages": [
                {"role": "assistant", "tool_calls": [{"id": ID}, {"id": "abcdefgh1"}]},
                {"role": "tool", "tool_call_id": ID, "content": ID},
            ]
        },
        "/v1/messages": {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": ID}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": ID}]},
            ]
        },
        "/v1/responses": {
            "input": [
                {"type": "function_call", "call_id": ID},
                {"type": "function_call_output", "call_id": ID, "output": "x"},
            ]
        },
    }
    for path, body in bodies.items():
        once, report = place(request(json.dumps(body), path=path), SHORT)
        text = json.dumps(body).replace(f': "{ID}"', f': "{short_id(ID)}"')
        wanted = text.replace(f'"content": "{short_id(ID)}"', f'"content": "{ID}"')
        assert once.body.decode() == wanted
        assert len(report.edits) == 2
        assert place(once, SHORT) == (once, None)


def test_all_that_is_said():
    transcript.holds("placing.txt", globals())
