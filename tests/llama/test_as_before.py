"""What a real server reuses where a client lists its tools or spells its calls in another way."""

import json

import pytest

from cacheproxy.core.prompt.request import Request

from .replay import Turn, breaks, erase, replay

pytestmark = pytest.mark.llama

WORDS = "Read the files of the folder and list what they have in common with the others. "


def tool(name, *, reverse=False):
    properties = {key: {"type": "string", "description": WORDS * 3} for key in ("path", "query")}
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    if reverse:
        schema = {key: schema[key] for key in reversed(schema)}
    return {"name": name, "description": WORDS * 4, "input_schema": schema}


def call(number, *, reverse=False):
    arguments = {"path": f"file {number}", "query": "é", "number": number}
    if reverse:
        arguments = {key: arguments[key] for key in reversed(arguments)}
    return [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": arguments}
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": WORDS * 8}
            ],
        },
    ]


def turn(number, *, tools="Agent Bash Read Write", reverse=False, session="anew"):
    """A turn with so many calls; ``reverse``: members of schemas and calls in another order."""
    messages = [{"role": "user", "content": WORDS * 2}]
    for index in range(number):
        messages += call(index, reverse=reverse)
    body = {
        "model": "m",
        "max_tokens": 1,
        "system": WORDS * 10,
        "messages": messages,
        "tools": [tool(name, reverse=reverse) for name in tools.split()],
    }
    headers = ((b"x-session-id", session.encode()),)
    return Turn(number, Request("POST", "/v1/messages", headers, json.dumps(body).encode()))


ANEW = [
    turn(1),
    turn(2, tools="Write Read Bash Agent"),
    turn(3, reverse=True),
    turn(4, tools="Bash Agent Read Write", reverse=True),
]


def test_tools_in_another_order_and_calls_spelled_anew_cost_nothing(llama, proxy):
    """Each turn reuses all of the one before; sent directly, each of them is a break."""
    erase(llama.url)
    assert list(breaks(replay(proxy.url, "messages", ANEW))) == []
    erase(llama.url)
    direct = replay(llama.url, "messages", ANEW)
    assert {measured.number for measured in breaks(direct)} == {2, 3, 4}
