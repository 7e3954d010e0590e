"""Where system and user text stand."""

from __future__ import annotations

import pytest

from cacheproxy.core.document.pointer import match_paths, parse_pattern
from cacheproxy.core.rules.places import NAMED, SYSTEM_HEAD, SYSTEM_TEXT, USER_TEXT

TEXT = {"type": "text"}
ANTHROPIC = {
    "system": [TEXT | {"text": "S0"}, TEXT | {"text": "S1"}],
    "messages": [
        {"role": "user", "content": "U0"},
        {"role": "assistant", "content": [TEXT | {"text": "A1"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "content": [TEXT | {"text": "TOOL"}], "text": "TOOL"},
                TEXT | {"text": "U2"},
            ],
        },
        {"role": "system", "content": "S3"},
        {"role": "system", "content": [TEXT | {"text": "S4"}]},
    ],
}
CHAT = {
    "messages": [
        {"role": "developer", "content": [TEXT | {"text": "S0"}]},
        {"role": "user", "content": [TEXT | {"text": "U1"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "A2", "tool_calls": [{"id": "c"}]},
        {"role": "tool", "tool_call_id": "c", "content": "TOOL"},
        {"role": "tool", "content": [TEXT | {"text": "TOOL"}]},
        {"role": "user", "content": "U5"},
        {"role": "system", "content": "S6"},
    ],
}
RESPONSES = {
    "instructions": "S",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "S0"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "U1"}]},
        {"role": "user", "content": "U2"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "A3"}]},
        {"type": "function_call_output", "call_id": "c", "output": "TOOL"},
    ],
}
OLLAMA = {
    "messages": [
        {"role": "system", "content": "S0"},
        {"role": "user", "content": "U1", "images": ["TOOL"]},
        {"role": "tool", "tool_name": "x", "content": "TOOL"},
    ],
}


def texts(body: dict, places: tuple[str, ...]) -> set[str]:
    return {
        text for place in places for _, text in match_paths(body, place) if isinstance(text, str)
    }


@pytest.mark.parametrize(
    ("body", "head", "system", "user"),
    [
        (ANTHROPIC, {"S0"}, {"S0", "S1", "S3", "S4"}, {"U0", "U2"}),
        (ANTHROPIC | {"system": "S"}, {"S"}, {"S", "S3", "S4"}, {"U0", "U2"}),
        (CHAT, {"S0"}, {"S0", "S6"}, {"U1", "U5"}),
        (RESPONSES, {"S", "S0"}, {"S", "S0"}, {"U1", "U2"}),
        ({"input": "U"}, set(), set(), {"U"}),
        (OLLAMA, {"S0"}, {"S0"}, {"U1"}),
    ],
    ids=["anthropic", "anthropic-string", "chat", "responses", "responses-string", "ollama"],
)
def test_places_find_all_text_of_a_role_and_no_tool_result(body, head, system, user):
    """Law 2: what a tool returned is in none of the places."""
    assert texts(body, SYSTEM_HEAD) == head
    assert texts(body, SYSTEM_TEXT) == system
    assert texts(body, USER_TEXT) == user


@pytest.mark.parametrize(
    "body",
    [
        {"system": 5, "messages": None, "input": 7, "instructions": []},
        {"system": {"text": "x"}, "messages": "text", "input": {"role": "user", "content": "x"}},
        {"system": [None, "x", {"type": "text"}], "messages": [None, "x", 5, []]},
        {"messages": [{"role": "user", "content": None}, {"role": "user", "content": {"a": "b"}}]},
        {"messages": {"0": {"role": 5, "content": "x"}}},
    ],
)
def test_wrong_shapes_hold_no_text(body):
    """A body of a shape no client sends is no error, and nothing in it is found."""
    for places in NAMED.values():
        assert texts(body, places) == set()


def test_named_places_are_readable_patterns():
    """Every name stands for patterns."""
    assert set(NAMED) == {"system-head", "system", "user"}
    for places in NAMED.values():
        assert all(parse_pattern(place) for place in places)
