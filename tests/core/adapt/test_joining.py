"""Late system messages join their neighbours; each turn extends the one before it."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import transcript
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
    result,
    sent,
    system,
    text,
    user,
)

# Joined.


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


def test_all_that_is_said():
    transcript.holds("joining.txt", globals())
