r"""Late system messages become the user's; nothing else changes, and each turn extends the last."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.placement import Late, Placement, Treatment, alike
from cacheproxy.core.placing import LateMessage, count_of, late_messages, place
from cacheproxy.testing import request

IN_PLACE = alike(Late.REFUSED, "test")
JOINS_USER = Placement(IN_PLACE.system, IN_PLACE.developer, joins_user=True)
JOINS_TOOL = Placement(IN_PLACE.system, IN_PLACE.developer, joins_tool=True)
JOINS_BOTH = alike(Late.REFUSED, "test", joins=True)
MODES = [IN_PLACE, JOINS_USER, JOINS_TOOL, JOINS_BOTH]
PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}
CACHE = {"cache_control": {"type": "ephemeral"}}
NEWS = "<system-reminder>\nnews\n</system-reminder>"


def text(words, **more):
    return {"type": "text", "text": words, **more}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def system(content, role="system", **more):
    return {"role": role, "content": content, **more}


def assistant(content):
    return {"role": "assistant", "content": content}


def call(*names):
    return assistant([{"type": "tool_use", "id": name, "name": "t", "input": {}} for name in names])


def result(name, content="done"):
    return {"type": "tool_result", "tool_use_id": name, "content": content}


HEAD = system("head")


def body_of(messages, api="messages"):
    if api == "responses":
        return {"instructions": "head", "input": messages}
    if api == "messages":
        return {"system": "head", "messages": messages}
    return {"messages": [HEAD, *messages]}


def placed(asked, placement=IN_PLACE):
    """The request after it is placed, and how many messages were; a second time there are none."""
    after, report = place(asked, placement)
    assert report is None or report.error is None, report
    again, more = place(after, placement)
    assert (again.body, more) == (after.body, None)
    return after, 0 if report is None else count_of(report.edits)


def sent(*messages, by=IN_PLACE, api="messages", count=None):
    """What goes on for ``messages``."""
    after, number = placed(request(body_of(list(messages), api), PATHS[api]), by)
    assert count in (None, number)
    items = after.json["input" if api == "responses" else "messages"]
    return items if api in ("messages", "responses") else items[1:]


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


@pytest.mark.parametrize("value", [None, 1, "system", {}, {"0": system("x")}, ["system"]])
def test_messages_of_another_shape_hold_no_late_ones(value):
    """A bad shape is no error."""
    asked = request({"messages": value, "x": "system"})
    assert late_messages(asked) == []
    assert placed(asked, JOINS_BOTH)[0] is asked


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
    """As JSON readers have it."""
    body = (
        '{"messages":[{"role":"user","content":"a"},{"role":"user","role":"system","content":"b"}]}'
    )
    after, _ = placed(request(body))
    assert after.json["messages"][1]["role"] == "user"
    assert after.body.count(b"system-reminder") == 2
    body = body.replace('"role":"user","role":"system"', '"role":"system","role":"user"')
    assert placed(request(body))[1] == 0


def test_text_that_is_wrapped_already_stays():
    """It becomes the user's as it is, be it in one block or in several."""
    assert sent(user("hi"), system(NEWS), count=1) == [user("hi"), user(NEWS)]
    blocks = [text("<system-reminder>\na"), text("b\n</system-reminder> \n")]
    assert sent(user("hi"), system(blocks)) == [user("hi"), user(blocks)]


def test_wrapped_text_is_known_however_it_is_spelled():
    """Go writes the brackets as escapes; alone or in a list, it is the same text."""
    spelled = json.dumps(NEWS).replace("<", "\\u003c").replace(">", "\\u003e")
    for content in (spelled, f'[{{"type":"text","text":{spelled}}}]'):
        late = f'{{"role":"system","content":{content}}}'
        body = f'{{"messages":[{{"role":"user","content":"a"}},{late}]}}'
        after, count = placed(request(body))
        assert (after.body.decode(), count) == (body.replace('system"', 'user"'), 1)


def test_blocks_keep_their_marks_and_images():
    """The mark goes around the first and the last text."""
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
    """``input_text``, with ids and a status beside."""
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
    """Not a byte, and there is no report."""
    asked = request(body_of([user("hi"), system("news")]))
    assert placed(asked, alike(late, "test", joins=True)) == (asked, 0)


# Joined.


def test_a_text_goes_to_the_end_of_the_user_message_before_it():
    """Be it a text or a list; what is the user's keeps its bytes."""
    body = '{"messages":[{"role":"user","content":"h\\u0069"},{"role":"system","content":"news"}]}'
    wanted = '{"messages":[{"role":"user","content":"h\\u0069\\n\\n' + json.dumps(NEWS)[1:] + "}]}"
    assert placed(request(body), JOINS_USER)[0].body.decode() == wanted
    assert sent(user([text("hi", **CACHE)]), system([text("news", **CACHE)]), by=JOINS_USER) == [
        user([text(f"hi\n\n{NEWS}", **CACHE)])
    ]


def test_else_it_goes_to_the_beginning_of_the_one_behind_it():
    """Several keep their order."""
    late = [system("a"), system("b")]
    marked = "<system-reminder>\n{}\n</system-reminder>\n\n".format
    for content in ("go", [text("go")]):
        conversation = (user("hi"), assistant("ho"), *late, user(content))
        found = sent(*conversation, by=JOINS_USER, count=2)
        joined = marked("a") + marked("b") + "go"
        assert found[2] == user(joined if content == "go" else [text(joined)])
        assert len(found) == 3


def test_without_a_user_message_beside_it_it_becomes_one():
    """Several become one."""
    found = sent(user("hi"), assistant("ho"), system("news"), system([text("b")]), by=JOINS_USER)
    assert found[2:] == [user(f"{NEWS}\n\n<system-reminder>\nb\n</system-reminder>")]


@pytest.mark.parametrize("between", [system("news"), system("")])
def test_user_messages_that_it_held_apart_become_one(between):
    """Also where it said nothing; two that the client sends in a row stay two."""
    found = sent(user("a"), between, user([text("b"), text("c")]), by=JOINS_USER)
    said = f"a\n\n{NEWS}\n\nb" if between["content"] else "a\n\nb"
    assert found == [user([text(said), text("c")])]
    assert len(sent(user("a"), user("b"), system("news"), by=JOINS_USER)) == 2


def test_a_text_goes_to_the_end_of_a_tools_result_where_no_user_may_follow():
    """In each API; what the tool returned stays as it is."""
    for content in ("x", [text("x")]):
        found = sent(
            user("hi"), call("1"), user([result("1", content)]), system("news"), by=JOINS_BOTH
        )
        wanted = f"x\n\n{NEWS}"
        assert found[2:] == [user([result("1", wanted if content == "x" else [text(wanted)])])]
    tool = {"role": "tool", "tool_call_id": "1", "content": "x"}
    assert sent(tool, system("news"), by=JOINS_TOOL, api="chat") == [
        tool | {"content": f"x\n\n{NEWS}"}
    ]
    output = {"type": "function_call_output", "call_id": "1", "output": "x"}
    assert sent(output, system("news"), by=JOINS_TOOL, api="responses") == [
        output | {"output": f"x\n\n{NEWS}"}
    ]
    found = sent(user("hi"), call("1"), user([result("1")]), system("news"), by=JOINS_USER)
    assert found[3] == user(NEWS)


@pytest.mark.parametrize(
    ("block", "content"),
    [
        ({"type": "tool_result", "tool_use_id": "1"}, NEWS),
        (result("1", None), NEWS),
        (result("1", []), [text(NEWS)]),
        (result("1", [{"type": "image"}]), [{"type": "image"}, text(NEWS)]),
    ],
)
def test_a_result_without_text_gets_one(block, content):
    """A tool may return nothing, or an image."""
    found = sent(call("1"), user([block]), system("news"), by=JOINS_BOTH)
    assert found[1] == user([block | {"content": content}])


def test_between_a_call_and_its_result_it_waits_for_the_result():
    """Where roles take turns nothing else may stand there; in place it stays."""
    messages = [user("hi"), call("1"), system("news"), user([result("1"), text("go on")])]
    assert sent(*messages, by=JOINS_BOTH)[2:] == [user([result("1"), text(f"go on\n\n{NEWS}")])]
    assert sent(*messages)[2] == user(NEWS)
    asked = {"role": "assistant", "tool_calls": [{"id": "1"}]}
    tool = {"role": "tool", "tool_call_id": "1", "content": "x"}
    for mode in (JOINS_USER, JOINS_TOOL, JOINS_BOTH):
        found = sent(user("hi"), asked, system("news"), tool, by=mode, api="chat")
        assert found == [user("hi"), asked, tool | {"content": f"x\n\n{NEWS}"}]


def test_images_beside_it_stay_where_they_are():
    """The text becomes a block of its own."""
    image = {"type": "image", "source": {}}
    assert sent(user([text("a"), image]), system("news"), user("b"), by=JOINS_USER) == [
        user([text("a"), image, text(f"{NEWS}\n\nb")])
    ]
    assert sent(user("a"), system([image, text("b")]), by=JOINS_USER) == [
        user([text("a"), image, text("<system-reminder>\nb\n</system-reminder>")])
    ]
    assert sent(user([]), system("news"), by=JOINS_USER) == [user([text(NEWS)])]


def test_only_system_messages():
    """They become one user message, or as many as they were."""
    asked = request({"messages": [system("head"), system("a"), system("b")]})
    after, count = placed(asked)
    assert ([each["role"] for each in after.json["messages"]], count) == (
        ["system", "user", "user"],
        2,
    )
    after, count = placed(asked, JOINS_BOTH)
    assert ([each["role"] for each in after.json["messages"]], count) == (["system", "user"], 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("api", PATHS)
def test_three_hundred_are_placed(mode, api):
    """One after each answer, and all in a row."""
    turns = [each for n in range(300) for each in (user(f"{n}"), system("news"), assistant("ok"))]
    found = sent(*turns, by=mode, api=api, count=300)
    assert not any(each["role"] == "system" for each in found)
    assert json.dumps(found).count("</system-reminder>") == 300
    row = sent(user("hi"), *[system("news")] * 300, by=mode, api=api, count=300)
    assert json.dumps(row).count("</system-reminder>") == 300


# Whatever comes.

CONTENTS = st.one_of(
    st.sampled_from(["", " ", "hi", NEWS, "\ud83d", None, 1]),
    st.lists(
        st.one_of(
            st.sampled_from(["", "a", "b"]).map(text),
            st.sampled_from(["1", "2", 3]).map(result),
            st.sampled_from([None, {}, {"type": "text"}, {"type": "image"}]),
            st.just({"type": "tool_result"}),
        ),
        max_size=3,
    ),
)
ITEMS = st.one_of(
    st.builds(user, CONTENTS),
    st.builds(system, CONTENTS, st.sampled_from(["system", "developer"])),
    st.builds(assistant, CONTENTS),
    st.builds(lambda content: {"role": "tool", "content": content}, CONTENTS),
    st.builds(lambda output: {"type": "function_call_output", "output": output}, CONTENTS),
    st.sampled_from([None, 1, "x", {}, {"role": []}, {"role": "system"}]),
)
TREATMENTS = st.builds(Treatment, st.sampled_from(Late), st.sampled_from(Late))
PLACEMENTS = st.builds(Placement, TREATMENTS, TREATMENTS, st.booleans(), st.booleans())


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


# From turn to turn.

ASKED = ["plain", "marked", "question"]
CALLED = ["news", "more news", "tool", "two tools", "early", "empty"]
LATE = {"news": ["news"], "more news": ["news", "more"], "empty": [""], "question": ["q"]}
TURNS = st.lists(st.sampled_from([*ASKED, *CALLED]), max_size=6).map(
    lambda kinds: ["plain", *kinds]
)


def results_of(kind, name, api):
    """Yield a call, and what its tools return."""
    names = [name, f"{name}b"] if kind == "two tools" else [name]
    yield (
        call(*names)
        if api == "messages"
        else assistant("") | {"tool_calls": [{"id": each} for each in names]}
    )
    if kind == "early":
        yield system("early")
    if api == "messages":
        yield user([result(each) for each in names])
    else:
        yield from ({"role": "tool", "tool_call_id": each, "content": "done"} for each in names)


def turns_of(kinds, api):
    """Yield the messages of each request of a conversation; as Claude Code marks its last."""
    messages = []
    for number, kind in enumerate(kinds):
        if kind in CALLED:
            messages += results_of(kind, str(number), api)
        else:
            messages += [assistant(f"answer {number}")] if messages else []
            messages.append(user(f"turn {number}"))
        messages += map(system, LATE.get(kind, ()))
        latest = json.loads(json.dumps(messages))
        if isinstance(latest[-1]["content"], str):  # the newest as a list, later as a text
            latest[-1]["content"] = [text(latest[-1]["content"], **CACHE)]
        yield latest


def rendered(messages):
    """As chat templates do it: a mark for each message, blocks in a line."""
    lines = []
    for message in messages:
        content = message["content"]
        blocks = [text(content)] if isinstance(content, str) else content
        words = "".join(
            block.get("text") or f"<{block['type']}>{rendered([user(block.get('content', ''))])}"
            for block in blocks
            if block.get("text") != ""
        )
        lines.append(f"[{message['role']}]{words}")
    return "".join(lines)


@pytest.mark.parametrize("api", ["messages", "chat", "ollama"])
@given(TURNS, st.sampled_from(MODES))
def test_every_turn_begins_with_the_one_before(api, kinds, mode):
    """The prompt only grows, with each text once as the newest message and later as an old one."""
    prompts = [rendered(sent(*turn, by=mode, api=api)) for turn in turns_of(kinds, api)]
    for earlier, later in pairwise(prompts):
        assert later.startswith(earlier)


@pytest.mark.parametrize("api", ["messages", "chat"])
@given(TURNS)
def test_joined_the_roles_take_turns_and_results_follow_their_calls(api, kinds):
    """As the strictest templates want it."""
    for turn in turns_of(kinds, api):
        found = sent(*turn, by=JOINS_BOTH, api=api)
        roles = [each["role"] for each in found]
        assert not {"system", "developer"} & set(roles)
        for one, other in pairwise(found):
            if one.get("tool_calls"):
                assert other["role"] == "tool"
            calls = [
                b["id"] for b in one["content"] if isinstance(b, dict) and b["type"] == "tool_use"
            ]
            if calls:
                assert [b["tool_use_id"] for b in other["content"][: len(calls)]] == calls
        speakers = {(one, other) for one, other in pairwise(roles) if one != "assistant"}
        assert speakers <= {("user", "assistant"), ("tool", "assistant"), ("tool", "tool")}


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


@given(st.lists(ITEMS, max_size=8), st.integers(0, 8), st.sampled_from(MODES))
def test_joined_only_the_last_message_of_a_beginning_may_grow(messages, length, mode):
    """By what the client adds before any answer came; all before it is settled."""
    whole, start = sent(*messages, by=mode), sent(*messages[:length], by=mode)
    settled = start
    while settled and isinstance(settled[-1], dict) and settled[-1].get("role") in ("user", "tool"):
        settled = settled[:-1]
    if start and settled != start:  # the last user message or result, and late ones behind it
        assert whole[: len(settled)] == settled
    else:
        assert (
            whole[: len(start)] == start or (start[-1] or {}).get("type") == "function_call_output"
        )
