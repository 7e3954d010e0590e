"""Tool definitions, and the choice among them."""

from __future__ import annotations

import pytest

from cacheproxy.translate.common.translation import TranslationError

from .conversations import turned, up

SCHEMA = {"type": "object", "properties": {"where": {"type": "string"}}}
LOOK = {"name": "look", "description": "Look.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": LOOK}
TURNED = {"name": "look", "description": "Look.", "input_schema": SCHEMA}
EMPTY = {"type": "object", "properties": {}}


def tools(*given, **more):
    return up({"messages": [], "tools": list(given), **more}).get("tools")


def choice(given, **more):
    return up({"messages": [], "tools": [TOOL], "tool_choice": given, **more}).get("tool_choice")


def test_functions_are_tools():
    """In their order; a function without parameters takes none; strictness is handed on."""
    bare = {"type": "function", "function": {"name": "bare", "strict": False}}
    empty = {"type": "function", "function": {"name": "empty", "parameters": {}, "strict": True}}
    other = {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}
    assert tools(TOOL, bare, empty, other) == [
        TURNED,
        {"name": "bare", "input_schema": EMPTY},
        {"name": "empty", "input_schema": EMPTY, "strict": True},
        {"name": "other", "input_schema": {"type": "object"}},
    ]


@pytest.mark.parametrize("elsewhere", ["", "\\ud83d"])
def test_schemas_keep_their_text(elsewhere):
    """Whichever reader read the body, wherever a lone surrogate is."""
    schema = '{ "z":1.0, "a":"\\u00e9" ,"m":1e5}'
    tool = '{"type":"function","function":{"name":"f","parameters":' + schema + "}}"
    body = '{"messages":[],"user":"' + elsewhere + f'","tools":[{tool},{tool}]' + "}"
    said = '{"name":"f","input_schema":' + schema + "}"
    assert f'"tools":[{said},{said}]' in turned(body).body.decode()
    odd = schema.replace("\\u00e9", "\\ud83d")
    assert odd in turned(body.replace(schema, odd)).body.decode()


def test_a_cache_breakpoint_stays():
    """At the tool, where clients of Anthropic's models put it."""
    mark = {"cache_control": {"type": "ephemeral"}}
    assert tools(TOOL | mark) == [TURNED | mark]


def test_functions_of_old():
    """Only where there are no tools; one call at a time is what such a client understands."""
    said = up({"messages": [], "functions": [LOOK], "function_call": {"name": "look"}})
    assert said["tools"] == [TURNED]
    assert said["tool_choice"] == {
        "type": "tool",
        "name": "look",
        "disable_parallel_tool_use": True,
    }
    said = up({"messages": [], "functions": [LOOK]})
    assert said["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    said = up({"messages": [], "functions": [LOOK], "function_call": "none"})
    assert said["tool_choice"] == {"type": "none"}
    assert tools(TOOL, functions=[{"name": "other"}]) == [TURNED]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ({"type": "function", "function": {"name": "look"}}, {"type": "tool", "name": "look"}),
    ],
)
def test_the_choice(given, said):
    """In Anthropic's words; and whether several calls may come at once."""
    assert choice(given) == choice(given, parallel_tool_calls=True) == said
    alone = {"disable_parallel_tool_use": True}
    expected = said if given == "none" else {"type": "auto"} | (said or {}) | alone
    assert choice(given, parallel_tool_calls=False) == expected


def test_without_tools_there_is_no_choice():
    """Anthropic's API refuses one."""
    said = up({"messages": [], "tools": [], "tool_choice": "auto", "parallel_tool_calls": False})
    assert "tools" not in said
    assert "tool_choice" not in said


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"tools": 7}, "/tools"),
        ({"tools": [7]}, "/tools/0"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "/tools/0/type"),
        ({"tools": [TOOL, {"type": "function"}]}, "/tools/1/function"),
        ({"tools": [{"function": {}}]}, "/tools/0/function/name"),
        ({"tools": [{"function": LOOK | {"parameters": 7}}]}, "/tools/0/function/parameters"),
        ({"tools": [{"function": LOOK | {"description": 7}}]}, "/tools/0/function/description"),
        ({"functions": [{}]}, "/functions/0/name"),
        ({"functions": [LOOK], "function_call": "f"}, "/function_call"),
        ({"functions": [LOOK], "function_call": {}}, "/function_call/name"),
        ({"tools": [TOOL], "tool_choice": "some"}, "/tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "/tool_choice/type"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "/tool_choice/function"),
    ],
)
def test_what_cannot_be_said_is_refused_by_its_place(wrong, place):
    """With the place."""
    with pytest.raises(TranslationError) as caught:
        up({"messages": [], **wrong})
    assert caught.value.place == place
