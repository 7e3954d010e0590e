"""An answer and the message that a client makes of it come to the same number."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.thinking.said import said, said_in

LOOK = ("look", '{"path": "a.py", "deep": 1.0}')


def chat(content, *calls):
    made = [{"id": "x", "function": {"name": name, "arguments": given}} for name, given in calls]
    return {"role": "assistant", "content": content, **({"tool_calls": made} if made else {})}


def blocks(*made):
    return {"role": "assistant", "content": list(made)}


def text(words):
    return {"type": "text", "text": words}


def use(given):
    return {"type": "tool_use", "id": "y", "name": "look", "input": given}


@pytest.mark.parametrize(
    "message",
    [
        chat("I look.", LOOK),
        chat("I look.\n", LOOK),
        chat([text("I look.")], LOOK),
        chat("I look.", ("look", '{"deep":1,"path":"a.py"}')),
        chat("I look.", ("look", {"deep": 1, "path": "a.py"})),
        blocks(text("I "), text("look."), use({"path": "a.py", "deep": 1})),
        blocks(text("I look."), use({"path": "a.py", "deep": 1.0})),
    ],
)
def test_however_it_is_spelled(message):
    """White space around it, blocks, the order and the numbers of arguments."""
    assert said_in(message) == said("I look.", [LOOK])


@pytest.mark.parametrize(
    "message",
    [
        chat("I looked.", LOOK),
        chat("I look."),
        chat("I look.", LOOK, LOOK),
        chat("I look.", ("look", '{"path": "b.py", "deep": 1.0}')),
        chat("I look.", ("seek", LOOK[1])),
    ],
)
def test_an_edited_message_says_another_thing(message):
    assert said_in(message) != said("I look.", [LOOK])


@pytest.mark.parametrize("content", [None, "", []])
def test_a_call_alone(content):
    """With any of the contents that clients send for none."""
    assert said_in(chat(content, LOOK)) == said("", [LOOK])


@pytest.mark.parametrize("given", ["{", '{"a": NaN}', "[" * 100_000, "", None, 7])
def test_arguments_that_are_no_object_are_compared_as_they_stand(given):
    assert said_in(chat("", ("look", given))) == said("", [("look", given)])


def test_nothing_of_a_strange_message_raises():
    strange = {"content": [7, {"type": "text"}, {}], "tool_calls": [7, {}, {"function": 7}]}
    assert said_in(strange) == said("", []) == said_in(json.loads("{}"))
