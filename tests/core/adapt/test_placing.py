"""Late system messages become the user's; nothing else changes."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.adapt.late import place
from cacheproxy.core.adapt.placing import LateMessage, late_messages, short_id
from cacheproxy.core.kinds.placement import Late, Placement, Treatment, alike
from cacheproxy.testing import request
from tests.core.late import (
    CACHE,
    ITEMS,
    MODES,
    NEWS,
    PATHS,
    PLACEMENTS,
    TREATMENTS,
    assistant,
    body_of,
    call,
    placed,
    sent,
    system,
    text,
    user,
)

# Which messages are late.


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        ({"system": "s", "messages": [1, 0, 1]}, "/v1/messages", [(1, False)]),
        ({"system": "s", "messages": [0, 1]}, "/v1/messages", [(0, True)]),
        ({"messages": [0, 1, 0]}, "/v1/messages", [(2, False)]),
        ({"messages": [0, 0, 1]}, "/v1/messages", [(1, True)]),
        ({"messages": [1, 0]}, "/v1/messages", [(1, False)]),
        ({"messages": [0, 1, 0, 0]}, "/v1/chat/completions", [(2, False), (3, False)]),
        ({"instructions": "i", "input": [0, 1]}, "/v1/responses", [(0, True)]),
        ({"instructions": None, "input": [0, 1]}, "/v1/responses", []),
        ({"messages": [0, 1, 0]}, "/api/chat", [(2, False)]),
        ({"messages": [0, 1, 0]}, "/v1/messages/count_tokens", [(2, False)]),
        ({"messages": [0, 1, 0]}, "/v1/completions", []),
        ({"messages": [0, 1, 0]}, "/elsewhere", []),
        ({"messages": []}, "/v1/messages", []),
    ],
)
def test_late_is_what_comes_behind_the_first_system_text(role, body, path, expected):
    """0 stands for a message of the role, 1 for a user's; the flag says whether it leads."""
    kinds = {0: system("x", role), 1: user("x")}
    body = {
        key: [kinds[item] for item in value] if isinstance(value, list) else value
        for key, value in body.items()
    }
    found = late_messages(request(body, path))
    assert found == [LateMessage(number, role, leads) for number, leads in expected]


# In place.


def test_in_place_the_bytes_of_its_text_and_of_all_else_stay():
    """Escapes, half a surrogate, numbers and duplicate keys survive; keys no user has go."""
    body = (
        '{"messages": [{"role":"user","content":"h\\u0069 \\ud83d","n":1.50,"n":1e2},'
        ' {"role" : "system", "x/y":1,"content": "new\\u0073 \\ud83d", "output_config":{}},'
        ' {"role":"assistant","content":"ha"}], "a":1, "a":2}'
    )
    wanted = body.replace('"system", "x/y":1,', '"user", ').replace(', "output_config":{}', "")
    wanted = wanted.replace(
        '"new\\u0073 \\ud83d"',
        '"<system-reminder>\\nnew\\u0073 \\ud83d\\n</system-reminder>"',
    )
    assert placed(request(body))[0].body.decode() == wanted


def test_of_two_roles_in_one_message_the_last_counts():
    body = (
        '{"messages":[{"role":"user","content":"a"},{"role":"user","role":"system","content":"b"}]}'
    )
    after, _ = placed(request(body))
    assert after.json["messages"][1]["role"] == "user"
    assert after.body.count(b"system-reminder") == 2
    body = body.replace('"role":"user","role":"system"', '"role":"system","role":"user"')
    assert placed(request(body))[1] == 0


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


def test_blocks_keep_their_marks_and_images():
    image = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    content = [text("a", **CACHE), image, text("b")]
    assert sent(user("hi"), system(content)) == [
        user("hi"),
        user([text("<system-reminder>\na", **CACHE), image, text("b\n</system-reminder>")]),
    ]
    assert sent(user("hi"), system([image])) == [user("hi"), user([image])]
    assert sent(user("hi"), system("", images=["aGk="]), api="ollama")[1] == {
        "role": "user",
        "content": "<system-reminder>\n\n</system-reminder>",
        "images": ["aGk="],
    }


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


def test_responses_have_blocks_of_their_own():
    late = {"type": "message", "id": "m", "status": "completed"}
    block = {"type": "input_text", "text": "news"}
    assert sent(user("hi"), late | system([block], "developer"), api="responses")[1] == late | user(
        [{"type": "input_text", "text": NEWS}]
    )


def test_a_role_is_moved_only_where_the_server_harms_it():
    """Of one role, or as a second text at the head alone."""
    messages = [system("lead", "developer"), user("hi"), system("a"), system("b", "developer")]

    def roles(placement):
        return [each["role"] for each in sent(*messages, by=placement, api="responses")]

    fine, bad = Treatment(Late.INLINE, Late.INLINE), Treatment(Late.DROPPED, Late.INLINE)
    assert roles(Placement(bad, fine)) == ["developer", "user", "user", "developer"]
    assert roles(Placement(fine, bad)) == ["developer", "user", "system", "user"]
    lead = Treatment(Late.USER, Late.REFUSED)
    assert roles(Placement(fine, lead)) == ["user", "user", "system", "developer"]


def test_what_leads_behind_one_that_became_the_users_leads_no_more():
    """Else the server would refuse it for what we have put before it."""
    inline_lead = Treatment(Late.REFUSED, Late.INLINE)
    placement = Placement(inline_lead, Treatment(Late.REFUSED, Late.REFUSED))
    leads = [system("dev", "developer"), system("sys")]
    assert [each["role"] for each in sent(*leads, user("hi"), by=placement)] == ["user"] * 3


@pytest.mark.parametrize("late", [Late.INLINE, Late.USER, Late.UNKNOWN])
def test_where_it_does_no_harm_nothing_is_edited(late):
    asked = request(body_of([user("hi"), system("news")]))
    assert placed(asked, alike(late, "test", joins=True)) == (asked, 0)


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


@pytest.mark.parametrize("spelled", ["", ID, "\ud800", "x" * 1_000_000])
def test_any_id_has_nine_signs_of_its_own(spelled):
    assert short_id(spelled).isalnum()
    assert len(short_id(spelled)) == 9
    assert short_id(spelled) != short_id(spelled + "x")
