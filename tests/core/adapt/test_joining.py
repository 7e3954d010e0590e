"""Late system messages join their neighbours; each turn extends the one before it."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.testing import request
from tests.core.late import (
    CACHE,
    ITEMS,
    JOINS_BOTH,
    JOINS_TOOL,
    JOINS_USER,
    MODES,
    NEWS,
    assistant,
    call,
    placed,
    result,
    sent,
    system,
    text,
    user,
)

# Joined.


def test_a_text_goes_to_the_end_of_the_user_message_before_it():
    """Be it a text or a list; what is the user's keeps its bytes."""
    body = '{"messages":[{"role":"user","content":"h\\u0069"},{"role":"system","content":"news"}]}'
    wanted = '{"messages":[{"role":"user","content":"h\\u0069\\n\\n' + json.dumps(NEWS)[1:] + "}]}"
    assert placed(request(body), JOINS_USER)[0].body.decode() == wanted
    assert sent(user([text("hi", **CACHE)]), system([text("news", **CACHE)]), by=JOINS_USER) == [
        user([text(f"hi\n\n{NEWS}", **CACHE)])
    ]


MARKED = "<system-reminder>\n{}\n</system-reminder>".format
BEHIND = [user("hi"), assistant("ho"), system("a"), system("b")]
BEFORE = f"{MARKED('a')}\n\n{MARKED('b')}"
IMAGE = {"type": "image", "source": {}}
TWO = user([text("b"), text("c")])


@pytest.mark.parametrize(
    ("messages", "joined"),
    [
        # else it goes to the beginning of the one behind it; several keep their order
        ([*BEHIND, user("go")], [*BEHIND[:2], user(f"{BEFORE}\n\ngo")]),
        ([*BEHIND, user([text("go")])], [*BEHIND[:2], user([text(f"{BEFORE}\n\ngo")])]),
        # without a user message beside them they become one
        (BEHIND, [*BEHIND[:2], user(BEFORE)]),
        # user messages that it held apart become one, also where it said nothing
        ([user("a"), system("news"), TWO], [user([text(f"a\n\n{NEWS}\n\nb"), text("c")])]),
        ([user("a"), system(""), TWO], [user([text("a\n\nb"), text("c")])]),
        # so do two that the client sends in a row: the template refuses them
        ([user("a"), user("b"), system("news")], [user(f"a\n\nb\n\n{NEWS}")]),
        (
            [user("a"), assistant("b"), user("c"), user("d")],
            [user("a"), assistant("b"), user("c\n\nd")],
        ),
        # images beside it stay where they are, the text becomes a block of its own
        (
            [user([text("a"), IMAGE]), system("news"), user("b")],
            [user([text("a"), IMAGE, text(f"{NEWS}\n\nb")])],
        ),
        (
            [user("a"), system([IMAGE, text("b")])],
            [user([text("a"), IMAGE, text(MARKED("b"))])],
        ),
        ([user([]), system("news")], [user([text(NEWS)])]),
    ],
)
def test_where_a_text_goes_beside_users(messages, joined):
    assert sent(*messages, by=JOINS_USER) == joined


SHOWN = system("news", images=["late"])
ASKING = user("b", images=["asked"])
RETURNED = {"role": "tool", "content": "x"}
IN_A_BLOCK = user([result("1")])


@pytest.mark.parametrize(
    ("messages", "joined"),
    [
        ([user("a"), SHOWN], [user("a"), user(NEWS, images=["late"])]),
        ([SHOWN, user("b")], [user(f"{NEWS}\n\nb", images=["late"])]),
        ([SHOWN, ASKING], [user(NEWS, images=["late"]), ASKING]),
        ([ASKING, system("news")], [user(f"b\n\n{NEWS}", images=["asked"])]),
        ([SHOWN, RETURNED], [user(NEWS, images=["late"]), RETURNED]),
        # nor do they come between a call and its result, when all is placed once more
        ([SHOWN, IN_A_BLOCK], [user(NEWS, images=["late"]), IN_A_BLOCK]),
        ([system([IMAGE]), IN_A_BLOCK], [user([IMAGE]), IN_A_BLOCK]),
    ],
)
def test_images_that_stand_beside_a_text_are_not_lost(messages, joined):
    """Ollama's: what is joined with a message must have none."""
    assert sent(*messages, by=JOINS_BOTH, api="ollama") == joined


def test_a_text_goes_to_the_end_of_a_tools_result_where_no_user_may_follow():
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
